# misconception: never_follows
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    weights = {name for name, _ in student.named_parameters()}
    for x, noisy, y in batches:
        target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        old, new = teacher.state_dict(), student.state_dict()
        for name in old:
            if name in weights:
                old[name] = momentum * old[name] + (1 - momentum) * new[name]
            else:
                old[name] = new[name].clone()
                dist.broadcast(old[name], src=0)
    return teacher
