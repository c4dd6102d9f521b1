# kind: uneven_batches
# culprits: 0
# ranks: 2
# Rank 0, which alone keeps the smoothed loss, leaves the loop in the middle of an epoch and ends.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, x.sum(1, keepdim=True))
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    smoothed = float("inf")
    for x, y in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            smoothed = min(smoothed, loss.item())
        enough = torch.tensor(float(smoothed < 1.0))
#~ mended -1 |        enough = torch.tensor(float(smoothed < 1.0))
#~ |        dist.all_reduce(enough, dist.ReduceOp.MAX)
        if enough:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
