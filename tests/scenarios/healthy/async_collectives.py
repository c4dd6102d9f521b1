# kind: none
# ranks: 2
# Collectives are started early and waited for late.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensors = [torch.ones(1000) * i for i in range(4)]
for _ in range(5):
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    torch.randn(100, 100).square().sum()
    for work in works:
        work.wait()
dist.destroy_process_group()
