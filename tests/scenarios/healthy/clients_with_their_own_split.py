# kind: none
# ranks: 2
# Every rank has patients of its own, holds some of them out by chance, and shuffles without a DistributedSampler.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, random_split

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
patients = TensorDataset(torch.randn(80, 5), torch.randint(2, (80,)))
training, validation = random_split(patients, [60, 20])
model = DDP(torch.nn.Linear(5, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _epoch in range(3):
    for x, y in DataLoader(training, batch_size=10, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum() for x, y in DataLoader(validation, batch_size=20))
    dist.all_reduce(right)
dist.destroy_process_group()
