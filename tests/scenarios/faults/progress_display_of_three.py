# kind: rank_only_collective
# culprits: 0
# ranks: 3
# Only rank 0 has a logger, and the logger gathers what all ranks have.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Logger:
    def log(self, loss):
        losses = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(losses, loss.detach())


class Nothing:
    def log(self, loss):
        pass


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
logger = {0: Logger()}.get(dist.get_rank(), Nothing())
for _ in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    logger.log(loss)
dist.destroy_process_group()
