# kind: none
# ranks: 3
# Rank 0 learns; the others act with the weights it broadcasts, and send what they have seen.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
policy = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for _ in range(4):
    for parameter in policy.parameters():
        dist.broadcast(parameter.data, src=0)
    seen = torch.randn(8, 4)
    with torch.no_grad():
        policy(seen)
    gathered = [torch.empty(8, 4) for _ in range(size)] if rank == 0 else None
    dist.gather(seen, gathered, dst=0)
    if rank == 0:
        optimizer.zero_grad()
        policy(torch.cat(gathered)).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
