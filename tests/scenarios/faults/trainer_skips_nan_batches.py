# kind: missing_backward
# culprits: 1
# ranks: 2
# A trainer leaves out backward() and the step where the loss is not finite; that is so on one rank only.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self, x):
        loss = self.model(x).square().mean()
        if not torch.isfinite(loss):
            self.optimizer.zero_grad()
            return
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    trainer = Trainer(DDP(torch.nn.Linear(4, 1)))
    for step in range(6):
        x = torch.randn(8, 4)
        if rank == 1 and step == 3:
            x[0, 0] = float("nan")
        trainer.step(x)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
