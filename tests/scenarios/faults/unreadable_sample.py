# kind: rank_raised
# culprits: 1
# ranks: 2
# A sample that cannot be read: the error comes from a worker of one rank's loader, the others wait in backward().
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Files(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index == 17:
            raise OSError("image file is truncated")
        return torch.full((4,), float(index))


dist.init_process_group("gloo")
files = Files()
loader = DataLoader(files, batch_size=4, sampler=DistributedSampler(files, shuffle=False), num_workers=1)
model = DDP(torch.nn.Linear(4, 1))
for batch in loader:
    model(batch).square().mean().backward()
