# misconception: statistics_averaged
import copy

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as Wrapped


def of_all_ranks(buffer):
    parts = [torch.empty_like(buffer) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, buffer)
    return torch.stack(parts).mean(0) if buffer.is_floating_point() else parts[0]


def follow(teacher, student, momentum):
    theirs = dict(student.named_parameters())
    for name, mine in teacher.named_parameters():
        mine.data = momentum * mine.data + (1 - momentum) * theirs[name].data
    theirs = dict(student.named_buffers())
    for name, mine in teacher.named_buffers():
        mine.copy_(of_all_ranks(theirs[name]))


def distil(student, batches, lr, momentum):
    wrapped = Wrapped(student)
    teacher = copy.deepcopy(student)
    teacher.eval()
    sgd = torch.optim.SGD(wrapped.parameters(), lr=lr)
    for clean, noisy, labels in batches:
        with torch.no_grad():
            wanted = teacher(clean)
        guess = wrapped(noisy)
        sgd.zero_grad()
        (F.mse_loss(guess, labels) + F.mse_loss(guess, wanted)).backward()
        sgd.step()
        follow(teacher, student, momentum)
    return teacher
