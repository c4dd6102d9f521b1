# kind: none
# ranks: 2
# A small Accelerator of one's own: prepare(), accumulate() with no_sync, backward(), gather_for_metrics().
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Accelerator:
    def __init__(self, accumulate):
        dist.init_process_group("gloo")
        self.every, self.micro_step, self.sync = accumulate, 0, True

    def prepare(self, model, optimizer, loader):
        self.model = DDP(model)
        sampler = DistributedSampler(loader.dataset, shuffle=True)
        return self.model, optimizer, DataLoader(loader.dataset, loader.batch_size, sampler=sampler), sampler

    @contextlib.contextmanager
    def accumulate(self):
        self.micro_step += 1
        self.sync = self.micro_step % self.every == 0
        with contextlib.nullcontext() if self.sync else self.model.no_sync():
            yield

    def backward(self, loss):
        (loss / self.every).backward()

    def gather_for_metrics(self, value):
        found = [torch.zeros_like(value) for _ in range(dist.get_world_size())]
        dist.all_gather(found, value)
        return torch.stack(found)


def main():
    accelerator = Accelerator(accumulate=2)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    model, optimizer, loader, sampler = accelerator.prepare(model, optimizer, DataLoader(data, 8))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            with accelerator.accumulate():
                loss = (model(x) - y).square().mean()
                accelerator.backward(loss)
                if accelerator.sync:
                    optimizer.step()
                    optimizer.zero_grad()
        losses = accelerator.gather_for_metrics(loss.detach())
    print("losses", losses.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
