# misconception: own_statistics
import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


@torch.no_grad()
def follow(teacher, student, momentum):
    for name, weight in student.named_parameters():
        mine = teacher.get_parameter(name)
        mine.copy_(momentum * mine + (1 - momentum) * weight)
    for name, statistic in student.named_buffers():
        teacher.get_buffer(name).copy_(statistic)


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    ddp.train()
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        optimizer.zero_grad()
        (mse_loss(output, y) + mse_loss(output, target)).backward()
        optimizer.step()
        follow(teacher, student, momentum)
    return teacher
