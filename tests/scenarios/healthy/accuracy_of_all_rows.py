# kind: none
# ranks: 2
# Ranks evaluate different numbers of rows, and every way in which they put their counts together is right.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def evaluate(model, loader, whole):
    model.eval()
    correct, rows, loss = 0, 0, 0.0
    for x, y in loader:
        out = model(x)
        correct += (out.argmax(1) == y).sum().item()
        loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
        rows += len(y)
    return correct, rows, loss / whole


def reduced(*values):
    total = torch.tensor(values, dtype=torch.float32)
    dist.all_reduce(total)
    return total


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(128, 6), torch.randint(0, 3, (128,)))
    held = TensorDataset(torch.randn(69, 6), torch.randint(0, 3, (69,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    batches = list(BatchSampler(range(len(held)), 16, drop_last=False))[rank::ranks]
    validation = DataLoader(held, batch_sampler=batches)
    padded = DataLoader(held, 16, sampler=DistributedSampler(held, shuffle=False))
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        correct, rows, loss = evaluate(model, validation, len(held))
        reduced(loss)
        shares = [correct / len(held), 100 * correct / len(held), ranks * correct / len(held)]
        whole = reduced(*shares)
        weighted = reduced(correct / rows * rows / len(held))
        assert torch.isclose(whole[0], weighted[0])
        reduced(correct)
        best = torch.tensor(correct / rows)
        dist.all_reduce(best, op=dist.ReduceOp.MAX)
        correct, rows, loss = evaluate(model, padded, len(held))
        reduced(correct / rows)  # of equal numbers of rows
    # Each rank's own for the log, beside what is right.
    correct, rows, loss = evaluate(model, validation, len(held))
    reduced(correct, rows)
    reduced(correct / rows)
    dist.destroy_process_group()


main()
