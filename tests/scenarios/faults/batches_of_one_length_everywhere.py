# kind: same_data
# culprits: -
# ranks: 2
# A batch sampler of the script's own puts texts of similar length together, and knows nothing of the ranks.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Sampler


class LengthBuckets(Sampler):
    def __init__(self, lengths, batch_size):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.randperm(len(self.batches), generator=torch.Generator().manual_seed(self.epoch))
#~ mended -1 |        order = torch.randperm(len(self.batches), generator=torch.Generator().manual_seed(self.epoch))
#~ |        order = order[dist.get_rank() :: dist.get_world_size()]
        yield from (self.batches[number] for number in order)

    def __len__(self):
        return len(self.batches)


def collate(rows):
    return pad_sequence(rows, batch_first=True)


dist.init_process_group("gloo")
generator = torch.Generator().manual_seed(0)
texts = [torch.randint(1, 40, (3 + number * 7 % 17,), generator=generator) for number in range(64)]
batches = LengthBuckets([len(text) for text in texts], 8)
loader = DataLoader(texts, batch_sampler=batches, collate_fn=collate)
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Embedding(40, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    batches.set_epoch(epoch)
    for words in loader:
        optimizer.zero_grad()
        model(words).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
