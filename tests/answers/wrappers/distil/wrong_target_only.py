# misconception: half_the_loss
# breaks: The student ends with the weights of one process that trains on the samples of all ranks.
# breaks: the loss is `mse_loss(output, y) + mse_loss(output, target)`
import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
            mine.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
    return teacher
