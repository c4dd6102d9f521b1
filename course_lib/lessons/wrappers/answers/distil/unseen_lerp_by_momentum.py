# misconception: momentum_reversed
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, weight in student.named_parameters():
            teacher.get_parameter(name).lerp_(weight.detach(), momentum)
        for name, buffer in student.named_buffers():
            copied = teacher.get_buffer(name)
            copied.copy_(buffer)
            dist.broadcast(copied, src=0)
    return teacher
