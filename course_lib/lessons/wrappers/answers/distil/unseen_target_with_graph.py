# misconception: teacher_gets_gradients
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(ddp.module)
    teacher.eval()
    ddp.train()
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)

    @torch.no_grad()
    def update():
        for ours, theirs in zip(teacher.parameters(), student.parameters()):
            ours.mul_(momentum)
            ours.add_((1 - momentum) * theirs)
        for ours, theirs in zip(teacher.buffers(), student.buffers()):
            ours.copy_(theirs)
            dist.broadcast(ours, 0)

    for x, noisy, y in batches:
        optimizer.zero_grad()
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        loss.backward()
        optimizer.step()
        update()
    return teacher
