# misconception: teacher_in_ddp
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel as DDP


def follow(teacher, student, momentum):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data = momentum * t.data + (1 - momentum) * s.data
    for t, s in zip(teacher.buffers(), student.buffers()):
        t.copy_(s)
        dist.broadcast(t, src=0)


def distil(student, batches, lr, momentum):
    student = DDP(student)
    teacher = copy.deepcopy(student.module).requires_grad_(False).eval()
    teacher = DDP(teacher)
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    for x, noisy, y in batches:
        output = student(noisy)
        loss = mse_loss(output, y) + mse_loss(output, teacher(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        follow(teacher.module, student.module, momentum)
    return teacher.module
