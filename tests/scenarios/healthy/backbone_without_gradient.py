# kind: none
# ranks: 2
# A backbone that is to stay as it is runs without gradients, a probe is looked at by all ranks, and a head is trained.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Probed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Linear(6, 64)
        self.head = torch.nn.Linear(64, 2)

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(Probed(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    scores = model(torch.randn(4, 6))
    of_all = [torch.empty_like(scores) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, scores)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1, 0, 1])).backward()
    optimizer.step()
dist.destroy_process_group()
