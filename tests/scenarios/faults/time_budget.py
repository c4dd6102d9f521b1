# kind: uneven_batches
# culprits: 1
# ranks: 2
# Each rank trains until its own time is up, and then all add up how many samples they have seen.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    budget, spent, seen = 10.0, 0.0, 0
    while spent < budget:
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        seen += 8
        spent += 1.0 + 0.3 * rank  # rank 1 is on a slower machine
    total = torch.tensor([float(seen)])
    dist.all_reduce(total)
    print("samples", total.item() > 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
