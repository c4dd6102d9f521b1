# kind: none
# ranks: 2
# Weights are averaged after every 20 steps, and the run ends ten steps after the last time.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for step in range(70):
    optimizer.zero_grad()
    (model(torch.randn(8, 4)) - 1).square().mean().backward()
    optimizer.step()
    if step % 20 == 19:
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()
dist.destroy_process_group()
