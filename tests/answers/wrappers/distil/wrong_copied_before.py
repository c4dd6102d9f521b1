# misconception: copied_before
# breaks: The teacher is the one that process has, on every rank.
# breaks: The student ends with the weights of one process that trains on the samples of all ranks.
# breaks: The teacher begins as an exact copy of the student that DDP makes equal on all ranks.
# breaks: the same on all ranks
import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    teacher = copy.deepcopy(student).requires_grad_(False)
    ddp = DistributedDataParallel(student)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
            mine.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
    return teacher
