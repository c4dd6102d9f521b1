# kind: none
# ranks: 3
# All ranks train the policy; ranks 0 and 1 train a critic besides, in a group of their own.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
critics = dist.new_group([0, 1])
torch.manual_seed(rank)
critic = DDP(torch.nn.Linear(4, 1), process_group=critics) if rank < 2 else None
policy = DDP(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
critics_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1) if critic else None
for _ in range(5):
    states = torch.randn(8, 4)
    if critic is not None:
        critics_optimizer.zero_grad()
        critic(states).square().mean().backward()
        critics_optimizer.step()
    optimizer.zero_grad()
    policy(states).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
