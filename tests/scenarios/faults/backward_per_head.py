# kind: several_backwards
# culprits: -
# ranks: 2
# Each task's loss gets a backward pass of its own, so that its gradient can be looked at.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

TASKS = {"depth": 1, "normals": 3, "edges": 1}


class Scene(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 14), nn.ReLU())
        self.heads = nn.ModuleDict({task: nn.Linear(14, size) for task, size in TASKS.items()})

    def forward(self, x):
        hidden = self.body(x)
        return {task: head(hidden) for task, head in self.heads.items()}


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Scene())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(5):
        optimizer.zero_grad()
        losses = {task: out.square().mean() for task, out in model(torch.randn(9, 7)).items()}
        for loss in losses.values():
            loss.backward(retain_graph=True)
#~ mended -2 |        sum(losses.values()).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
