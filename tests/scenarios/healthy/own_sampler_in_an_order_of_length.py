# kind: none
# ranks: 2
# Samples come in the order of their length in every epoch, on purpose: the sampler is told the epoch, and needs none.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Sampler


class ByLength(Sampler):
    def __init__(self, lengths, rank, world):
        self.order = sorted(range(len(lengths)), key=lambda number: lengths[number])[rank::world]
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(0)
lengths = torch.randint(2, 12, (48,), generator=generator).tolist()
data = [torch.randn(length, 4, generator=generator) for length in lengths]
sampler = ByLength(lengths, dist.get_rank(), dist.get_world_size())
loader = DataLoader(
    data, batch_size=8, sampler=sampler, collate_fn=lambda rows: pad_sequence(rows, batch_first=True)
)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
