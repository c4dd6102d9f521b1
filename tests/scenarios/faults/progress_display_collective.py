# kind: rank_only_collective
# culprits: 0
# ranks: 2
# The progress display of rank 0 averages the loss over all ranks; the others have no display.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Progress:
    def __init__(self, shown):
        self.shown = shown

    def update(self, step, loss):
        if self.shown and step % 3 == 2:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            print(f"step {step} {mean.shape}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DDP(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    progress = Progress(shown=dist.get_rank() == 0)
    for step in range(8):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        progress.update(step, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
