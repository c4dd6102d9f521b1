# misconception: half_the_loss
import copy

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def distil(student, batches, lr, momentum):
    ddp = DDP(student)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    opt = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, _ in batches:
        opt.zero_grad()
        F.mse_loss(ddp(noisy), teacher(x)).backward()
        opt.step()
        with torch.no_grad():
            for t, s in zip(teacher.parameters(), student.parameters()):
                t.lerp_(s, 1 - momentum)
            for t, s in zip(teacher.buffers(), student.buffers()):
                t.copy_(s)
                dist.broadcast(t, src=0)
    return teacher
