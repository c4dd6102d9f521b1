# kind: parameters_added
# culprits: -
# ranks: 2
# A pretrained model is wrapped, and gets its adapter afterwards.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Adapted(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, 2, bias=False)
        self.up = torch.nn.Linear(2, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x).relu())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Net(), find_unused_parameters=True)
    model.module.body = Adapted(model.module.body)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
