# kind: schedule_too_short
# culprits: -
# ranks: 2
# A wrapper around the schedule steps it once for each rank, as accelerate's does; the script's own decay, made for the
# batches of one rank, is at 0 for the second half.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def linear(warmup, total):
    def at(step):
        if step < warmup:
            return step / max(1, warmup)
        return max(0.0, (total - step) / max(1, total - warmup))

    return at


class Stepped:
    def __init__(self, schedule):
        self.schedule = schedule

    def step(self):
        for _ in range(dist.get_world_size()):
            self.schedule.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 4), torch.randn(160, 1))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    total = 3 * len(loader)
    #~ mended -1 |    total = 3 * len(loader) * dist.get_world_size()
    schedule = Stepped(LambdaLR(optimizer, linear(total // 10, total)))
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            schedule.step()
    dist.destroy_process_group()


main()
