# misconception: local_statistics
# breaks: The outputs are those of one process with the samples of all ranks.
import torch


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    pass
