# misconception: buffers_left
import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student).train()
    teacher = copy.deepcopy(student)
    teacher.eval().requires_grad_(False)
    sgd = torch.optim.SGD(ddp.parameters(), lr)
    for x, noisy, y in batches:
        guess = ddp(noisy)
        loss = mse_loss(guess, y) + mse_loss(guess, teacher(x))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 1 - momentum)
    return teacher
