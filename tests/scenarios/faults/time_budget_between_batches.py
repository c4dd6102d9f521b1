# kind: uneven_batches
# culprits: 1
# ranks: 2
# Each rank leaves the loop over its loader when its own time is up, with a batch in its hands.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Budget:
    def __init__(self, rank):
        self.left, self.cost = 10.0, 1.0 + 0.3 * rank  # rank 1 is on a slower machine

    def used_up(self):
        self.left -= self.cost
        up = torch.tensor([self.left < 0.0], dtype=torch.float32)
#~ mended -1 |        up = torch.tensor([self.left < 0.0], dtype=torch.float32)
#~ |        dist.all_reduce(up)
        return up.item() > 0


def train(model, loader, budget):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = 0
    for x, y in loader:
        if budget.used_up():
            return seen
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        seen += len(x)
    return seen


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(256, 4, generator=generator), torch.randn(256, 1, generator=generator))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    seen = torch.tensor([float(train(DDP(torch.nn.Linear(4, 1)), loader, Budget(dist.get_rank())))])
    dist.all_reduce(seen)
    print("samples", seen.item() > 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
