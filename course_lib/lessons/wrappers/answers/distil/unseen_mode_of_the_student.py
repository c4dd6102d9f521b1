# misconception: teacher_in_train_mode
import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    student.train()
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        with torch.no_grad():
            target = teacher(x)
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        source = student.state_dict()
        buffers = dict(teacher.named_buffers())
        for name, tensor in teacher.state_dict().items():
            if name in buffers:
                tensor.copy_(source[name])
                dist.broadcast(tensor, src=0)
            else:
                tensor.copy_(momentum * tensor + (1 - momentum) * source[name])
    return teacher
