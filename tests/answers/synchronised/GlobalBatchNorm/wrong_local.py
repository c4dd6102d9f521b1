# misconception: local_statistics
import torch


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    pass
