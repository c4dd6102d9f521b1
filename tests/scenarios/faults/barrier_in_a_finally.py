# kind: rank_raised
# culprits: 1
# ranks: 2
# Labels of rank 1 are damaged: on the way out of the error it waits in a barrier that ends every run.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

LABELS = {0: "1 0 1 1", 1: "0 1 n/a 1"}


class Job:
    def __init__(self):
        self.model = DDP(torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        try:
            self.train([float(word) for word in LABELS[dist.get_rank()].split()])
        finally:
            self.finish()

    def train(self, labels):
        for label in labels:
            self.optimizer.zero_grad()
            (self.model(torch.randn(2, 4)) - label).square().mean().backward()
            self.optimizer.step()

    def finish(self):
        dist.barrier()
        dist.destroy_process_group()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
Job().run()
