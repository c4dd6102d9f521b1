# kind: none
# ranks: 2
# Each bucket's parameters are stepped inside backward(), as soon as their gradients are averaged.
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = DDP(net, bucket_cap_mb=0.001)
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}


def all_reduce_and_step(_, bucket):
    def step(_):
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            parameter.grad = gradient
            optimizers[parameter].step()
        return bucket.buffer()

    return default_hooks.allreduce_hook(None, bucket).then(step)


model.register_comm_hook(None, all_reduce_and_step)
for _ in range(6):
    model(torch.randn(8, 4)).square().mean().backward()
    model.zero_grad()
dist.destroy_process_group()
