# misconception: teacher_counted
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


class Pair(nn.Module):
    def __init__(self, student):
        super().__init__()
        self.student = student
        self.teacher = copy.deepcopy(student).eval()

    def forward(self, x, noisy):
        with torch.no_grad():
            target = self.teacher(x)
        return self.student(noisy), target


def distil(student, batches, lr, momentum):
    pair = Pair(student)
    ddp = DistributedDataParallel(pair)
    sgd = torch.optim.SGD(student.parameters(), lr=lr)
    for x, noisy, y in batches:
        sgd.zero_grad()
        output, target = ddp(x, noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        loss.backward()
        sgd.step()
        with torch.no_grad():
            for t, s in zip(pair.teacher.parameters(), student.parameters()):
                t.copy_(momentum * t + (1 - momentum) * s)
            for t, s in zip(pair.teacher.buffers(), student.buffers()):
                t.copy_(s)
                dist.broadcast(t, src=0)
    return pair.teacher.requires_grad_(False)
