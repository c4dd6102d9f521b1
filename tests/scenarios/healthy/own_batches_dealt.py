# kind: none
# ranks: 2
# A batch sampler of the script's own makes batches of similar length, and deals them out: other ones in every epoch.
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Sampler


class Buckets(Sampler):
    def __init__(self, lengths, size):
        self.lengths, self.size, self.epoch = lengths, size, 0
        self.rank, self.num_replicas = dist.get_rank(), dist.get_world_size()

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        chance = random.Random(self.epoch)
        order = sorted(range(len(self.lengths)), key=lambda number: (self.lengths[number], chance.random()))
        batches = [order[first : first + self.size] for first in range(0, len(order), self.size)]
        chance.shuffle(batches)
        return iter(batches[self.rank :: self.num_replicas])

    def __len__(self):
        return len(self.lengths) // self.size // self.num_replicas


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(0)
lengths = torch.randint(2, 12, (48,), generator=generator).tolist()
data = [torch.randn(length, 4, generator=generator) for length in lengths]
sampler = Buckets(lengths, 6)
loader = DataLoader(data, batch_sampler=sampler, collate_fn=lambda rows: pad_sequence(rows, batch_first=True))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
