# misconception: no_momentum
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(ddp.module).eval()
    teacher.requires_grad_(False)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        with torch.no_grad():
            target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teacher.load_state_dict(ddp.module.state_dict())
        for buffer in teacher.buffers():
            dist.broadcast(buffer, src=0)
    return teacher
