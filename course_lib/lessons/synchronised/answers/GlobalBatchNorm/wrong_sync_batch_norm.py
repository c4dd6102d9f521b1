# misconception: none
import torch


class GlobalBatchNorm(torch.nn.SyncBatchNorm):
    pass
