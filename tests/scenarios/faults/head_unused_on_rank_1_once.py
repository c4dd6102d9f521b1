# kind: unused_parameters
# culprits: 1
# ranks: 2
# A single step, in which rank 1's batch has no labels for the second head.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.labels = torch.nn.Linear(4, 1)
        self.masks = torch.nn.Linear(4, 2)

    def forward(self, x, with_masks):
        hidden = self.body(x).relu()
        return self.labels(hidden).mean() + (self.masks(hidden).mean() if with_masks else 0.0)


def main():
    dist.init_process_group("gloo")
    model = DDP(TwoHeads())
    loss = model(torch.ones(8, 4), dist.get_rank() == 0)
    loss.backward()
    print("norm", sum(p.grad.norm() for p in model.parameters() if p.grad is not None))
    dist.destroy_process_group()


main()
