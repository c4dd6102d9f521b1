# kind: uneven_batches
# culprits: 0
# ranks: 2
# Before each step rank 0 tells the others of a signal; that its own loss is low enough, it tells nobody.
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
    enough = torch.zeros(())
    for x, y in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
        if enough:
            break
        signalled = torch.zeros(())
        dist.broadcast(signalled, 0)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        enough = torch.tensor(float(dist.get_rank() == 0 and loss.item() < 1.0))
#~ mended -1 |        enough = torch.tensor(float(loss.item() < 1.0))
#~ |        dist.all_reduce(enough, dist.ReduceOp.MAX)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
