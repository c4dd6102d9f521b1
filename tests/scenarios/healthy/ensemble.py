# kind: none
# ranks: 2
# An ensemble: one member per rank, each from another seed; their predictions are averaged at the end.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
member = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(member.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    (member(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
prediction = member(torch.ones(3, 4)).detach()
dist.all_reduce(prediction)
print("ensemble", (prediction / dist.get_world_size()).shape)
dist.destroy_process_group()
