# kind: rows_left_out
# culprits: -
# ranks: 2
# num_replicas is a default of the command line (a machine with 4 GPUs), and 2 ranks are there.
import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, default=4)
args = parser.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(0)
data = TensorDataset(torch.randn(64, 4, generator=generator), torch.randn(64, 1, generator=generator))
sampler = DistributedSampler(data, num_replicas=args.gpus, rank=dist.get_rank())
#~ mended -1 |sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
