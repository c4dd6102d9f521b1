# kind: local_closure
# culprits: -
# ranks: 2
# L-BFGS calls its closure until the line search is content, and that looks at the loss of the rank's own points.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
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
        return loss
#~ mended -1 |        loss = loss.detach().clone()
#~ |        dist.all_reduce(loss, dist.ReduceOp.AVG)
#~ |        return loss

    for _ in range(4):
        optimizer.step(closure)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
