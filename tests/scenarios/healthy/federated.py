# kind: none
# ranks: 2
# Federated averaging: as many local steps as a client has data, a new optimizer in every round, a weighted average.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
torch.manual_seed(1 + rank)
steps, all_steps = 3 + 2 * rank, 8
for _round in range(3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - rank).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(steps / all_steps)
            dist.all_reduce(parameter)
dist.destroy_process_group()
