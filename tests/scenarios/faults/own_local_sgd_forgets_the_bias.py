# kind: parameters_outside
# culprits: -
# ranks: 2
# Plain data parallelism by hand that averages the matrices and forgets the vectors.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(6):
    optimizer.zero_grad()
    (model(torch.randn(8, 4)) - 1).square().mean().backward()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    optimizer.step()
dist.destroy_process_group()
