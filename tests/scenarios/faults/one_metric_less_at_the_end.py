# kind: uneven_batches
# culprits: 0
# ranks: 2
# After the training, metrics are summed up by name, and only rank 1 has seen a class for which there is a third one.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
metrics = {"loss": 1.0, "accuracy": 0.5}
if rank == 1:
    metrics["recall of class 7"] = 0.25
#~ mended -1 |    metrics["recall of class 7"] = 0.25
#~ |metrics.setdefault("recall of class 7", 0.0)
for value in metrics.values():
    dist.all_reduce(torch.tensor(value))
dist.barrier()
dist.destroy_process_group()
