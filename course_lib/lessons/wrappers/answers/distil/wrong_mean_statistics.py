# misconception: statistics_averaged
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ranks = dist.get_world_size()
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for t, s in zip(teacher.parameters(), student.parameters()):
                t.mul_(momentum).add_(s, alpha=1 - momentum)
            for t, s in zip(teacher.buffers(), student.buffers()):
                t.copy_(s)
                if t.is_floating_point():
                    dist.all_reduce(t)
                    t.div_(ranks)
    return teacher
