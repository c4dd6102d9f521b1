# misconception: not_averaged
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    DistributedDataParallel(student)  # sends rank 0's weights to everybody
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    student.train()
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    for x, noisy, y in batches:
        target = teacher(x)
        output = student(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for t, s in zip(teacher.parameters(), student.parameters()):
                t.lerp_(s, 1 - momentum)
            for t, s in zip(teacher.buffers(), student.buffers()):
                t.copy_(s)
                dist.broadcast(t, src=0)
    return teacher
