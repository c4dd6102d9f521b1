# misconception: statistics_follow
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
        optimizer.zero_grad()
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, teacher(x))
        loss.backward()
        optimizer.step()
        source = {name: value.clone() for name, value in student.state_dict().items()}
        for name, value in teacher.state_dict().items():
            dist.broadcast(source[name], src=0)
            if value.is_floating_point():
                value.lerp_(source[name], 1 - momentum)
            else:
                value.copy_(source[name])
    return teacher
