# misconception: copied_before
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    teacher = copy.deepcopy(student)
    teacher.eval()
    for weight in teacher.parameters():
        weight.requires_grad = False
    model = DistributedDataParallel(student)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, noisy, y in batches:
        optimizer.zero_grad()
        target = teacher(x)
        output = model(noisy)
        (mse_loss(output, y) + mse_loss(output, target)).backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), student.parameters()):
                old.mul_(momentum).add_(new, alpha=1 - momentum)
            for old, new in zip(teacher.buffers(), student.buffers()):
                old.copy_(new)
                dist.broadcast(old, src=0)
    return teacher
