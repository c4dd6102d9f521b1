# kind: none
# ranks: 2
# L-BFGS, and its closure gives every rank the mean of all losses.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train():
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    torch.manual_seed(1 + dist.get_rank())
    points = torch.rand(64, 2) * 4 - 2
    target = (points[:, :1] * points[:, 1:]).sin()

    def closure():
        optimizer.zero_grad()
        loss = (model(points) - target).square().mean()
        loss.backward()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        return mean / dist.get_world_size()

    for _ in range(4):
        optimizer.step(closure)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
