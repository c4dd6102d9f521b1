# kind: weights_differ
# culprits: 0
# ranks: 3
# Rank 0 loads a better checkpoint of the wrapped model in the middle of the run.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(4, 1))
    best = {name: value * 0.5 for name, value in model.module.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(7):
        if step == 4 and rank == 0:
            model.module.load_state_dict(best)
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
