# kind: none
# ranks: 2
# A critic whose weights are clamped after every step, five critic steps for one of the generator, and an EMA generator.
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator, critic = DDP(torch.nn.Linear(2, 4)), DDP(torch.nn.Linear(4, 1))
average = copy.deepcopy(generator.module).requires_grad_(False)
for_generator = torch.optim.RMSprop(generator.parameters(), lr=0.01)
for_critic = torch.optim.RMSprop(critic.parameters(), lr=0.01)
for step in range(12):
    for_critic.zero_grad()
    fake = generator(torch.randn(8, 2)).detach()
    (critic(fake).mean() - critic(torch.randn(8, 4)).mean()).backward()
    for_critic.step()
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.clamp_(-0.1, 0.1)
    if step % 5 == 4:
        for_generator.zero_grad()
        critic.requires_grad_(False)
        (-critic.module(generator(torch.randn(8, 2))).mean()).backward()
        critic.requires_grad_(True)
        for_generator.step()
        with torch.no_grad():
            for mean, now in zip(average.parameters(), generator.parameters(), strict=True):
                mean.lerp_(now, 0.1)
dist.destroy_process_group()
