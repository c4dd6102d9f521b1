# kind: labels_differ
# culprits: -
# ranks: 2
# start: spawn
# Species are numbered in the order of a set of strings, which is another one in every process.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

SPECIES = ["oak", "elm", "ash", "birch", "beech", "maple", "lime", "yew"]


class Leaves(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.sizes = torch.randn(96, 4, generator=generator)
        self.species = [SPECIES[n] for n in torch.randint(8, (96,), generator=generator)]
        self.class_to_idx = {name: n for n, name in enumerate(set(SPECIES))}
#~ mended -1 |        self.class_to_idx = {name: n for n, name in enumerate(sorted(set(SPECIES)))}

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        return {"size": self.sizes[index], "species": self.class_to_idx[self.species[index]], "index": index}


dist.init_process_group("gloo")
data = Leaves()
sampler = DistributedSampler(data)
model = DDP(torch.nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in DataLoader(data, batch_size=8, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch["size"]), batch["species"]).backward()
        optimizer.step()
dist.destroy_process_group()
