# kind: none
# ranks: 2
# The body is frozen after an epoch and the model wrapped anew; a critic is frozen for each step of the generator.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    critic = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    judge = torch.optim.SGD(critic.parameters(), lr=0.01)
    torch.manual_seed(1 + dist.get_rank())
    for epoch in range(2):
        net[0].requires_grad_(epoch == 0)
        maker = DDP(net)
        make = torch.optim.SGD([p for p in maker.parameters() if p.requires_grad], lr=0.01)
        for _ in range(3):
            real, fake = torch.randn(8, 4), maker(torch.randn(8, 4))
            judge.zero_grad()
            (critic(fake.detach()).mean() - critic(real).mean()).backward()
            judge.step()
            critic.requires_grad_(False)
            make.zero_grad()
            (-critic(fake).mean()).backward()
            make.step()
            critic.requires_grad_(True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
