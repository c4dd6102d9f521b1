# kind: different_sizes
# culprits: -
# ranks: 2
# Gradients are averaged by hand where there are any: a rank without a gradient for one layer is a collective behind.
import torch
import torch.distributed as dist


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.extra = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x, gate):
        x = self.body(x).relu()
        if gate:
            x = self.extra(x).relu()
        return self.head(x)


def average(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Gated()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4), gate=rank == 0 or step == 2).square().mean().backward()
    average(model)
    optimizer.step()
dist.destroy_process_group()
