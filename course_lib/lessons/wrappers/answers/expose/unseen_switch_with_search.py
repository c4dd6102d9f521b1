# misconception: side_by_side
from functools import partial

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Dispatcher(torch.nn.Module):
    def __init__(self, auto):
        super().__init__()
        self.auto = auto

    def forward(self, which, tensor):
        return self.auto.encode(tensor) if which == 0 else self.auto.decode(tensor)


def expose(net):
    model = DDP(Dispatcher(net), find_unused_parameters=True)
    return partial(model, 0), partial(model, 1)
