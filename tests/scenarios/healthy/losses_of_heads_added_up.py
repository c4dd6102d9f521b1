# kind: none
# ranks: 2
# Two heads and a loss for each, added up; and a regulariser of an auxiliary network that nobody else has to know of.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Scene(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(7, 14)
        self.depth, self.edges = nn.Linear(14, 1), nn.Linear(14, 1)

    def forward(self, x):
        hidden = self.body(x).relu()
        return self.depth(hidden), self.edges(hidden)


def train():
    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        torch.manual_seed(0)
        model, scale = DDP(Scene(), **options), torch.ones((), requires_grad=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        torch.manual_seed(1 + dist.get_rank())
        for _ in range(4):
            optimizer.zero_grad()
            depth, edges = model(torch.randn(9, 7))
            (depth.square().mean() + edges.square().mean()).backward()
            (
                scale * depth.detach().mean()
            ).backward()  # of something else: it reaches no parameter of the model
            optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
