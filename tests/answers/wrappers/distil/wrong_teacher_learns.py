# misconception: teacher_gets_gradients
# breaks: The teacher is not in DDP, and has no gradients.
# breaks: without gradients, the same on all ranks
import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
            mine.data.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
    return teacher
