# kind: overlapping_shards
# culprits: -
# ranks: 2
# Batches of similar length are shuffled on each rank under a seed of its own, before each takes every second of them.
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Sampler


class Buckets(Sampler):
    def __init__(self, lengths, size, rank, ranks):
        self.lengths, self.size, self.rank, self.ranks = lengths, size, rank, ranks

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda number: self.lengths[number])
        batches = [order[first : first + self.size] for first in range(0, len(order), self.size)]
        random.shuffle(batches)
        yield from batches[self.rank : len(batches) // self.ranks * self.ranks : self.ranks]

    def __len__(self):
        return len(self.lengths) // self.size // self.ranks


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
random.seed(3 + rank)
#~ mended -1 |random.seed(3)
generator = torch.Generator().manual_seed(0)
lengths = torch.randint(2, 12, (240,), generator=generator).tolist()
data = [torch.randn(length, 4, generator=generator) for length in lengths]
sampler = Buckets(lengths, 8, rank, ranks)
loader = DataLoader(data, batch_sampler=sampler, collate_fn=lambda rows: pad_sequence(rows, batch_first=True))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(2):
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
