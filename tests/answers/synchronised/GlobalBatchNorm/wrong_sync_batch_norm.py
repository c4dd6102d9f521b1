# misconception: none
# breaks: Write one that does.
import torch


class GlobalBatchNorm(torch.nn.SyncBatchNorm):
    pass
