# kind: none
# ranks: 2
# Twenty local steps, then the weights are averaged (DiLoCo without momentum): no DDP at all.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for _round in range(3):
    for _ in range(20):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            dist.all_reduce(parameter)
            parameter /= dist.get_world_size()
dist.destroy_process_group()
