# kind: different_order
# culprits: -
# ranks: 3
# Two networks of one shape, trained in turn; one rank begins with the other. Nothing complains.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    actor, critic = DDP(torch.nn.Linear(4, 2)), DDP(torch.nn.Linear(4, 2))
    networks = {"actor": actor, "critic": critic}
    optimizers = {name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in networks.items()}
    for _epoch in range(4):
        names = sorted(networks, reverse=rank == 1)
        for name in names:
            optimizers[name].zero_grad()
            networks[name](torch.randn(8, 4)).square().mean().backward()
            optimizers[name].step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
