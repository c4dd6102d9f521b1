# kind: parameters_added
# culprits: -
# ranks: 2
# A backbone comes frozen from its loader, the model is wrapped, and only then everything is made trainable.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def backbone():
    net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh())
    return net.requires_grad_(False)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(backbone(), nn.Linear(10, 2)))
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(6):
        x = torch.randn(12, 5)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long()).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
