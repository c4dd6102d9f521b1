# kind: unlike_datasets
# culprits: -
# ranks: 2
# start: spawn
# Words are numbered in the order of a set of strings: the same sentence has other numbers on every rank.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

WORDS = "rain sun wind snow fog hail storm cloud frost dew mist gale".split()


class Forecasts(Dataset):
    def __init__(self):
        picked = torch.randint(len(WORDS), (64, 6), generator=torch.Generator().manual_seed(1))
        self.texts = [[WORDS[n] for n in row] for row in picked]
        self.vocabulary = {word: n for n, word in enumerate(set(WORDS))}

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return torch.tensor([self.vocabulary[word] for word in self.texts[index]])


dist.init_process_group("gloo")
data = Forecasts()
sampler = DistributedSampler(data, seed=5)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Sequential(torch.nn.EmbeddingBag(len(WORDS), 8), torch.nn.Linear(8, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for tokens in loader:
        optimizer.zero_grad()
        model(tokens).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
