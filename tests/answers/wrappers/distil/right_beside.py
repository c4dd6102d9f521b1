import copy

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
#~ copied_before -0 |    teacher = copy.deepcopy(student).requires_grad_(False)
    ddp = DistributedDataParallel(student)
    teacher = copy.deepcopy(student).requires_grad_(False)
#~ copied_before -1
#~ ddp_copied -1 |    teacher = copy.deepcopy(ddp)
#~ teacher_in_ddp -1 |    teacher = DistributedDataParallel(copy.deepcopy(student).requires_grad_(False))
#~ teacher_learns -1 |    teacher = copy.deepcopy(student)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
#~ momentum_in_sgd -1 |    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr, momentum=momentum)
    for x, noisy, y in batches:
#~ inputs_exchanged -1 |    for noisy, x, y in batches:
        target = teacher(x)
#~ ddp_copied -1 |        with torch.no_grad():
#~ |            target = teacher(x)
#~ labels_only -1
        output = ddp(noisy)
#~ student_module -1 |        output = ddp.module(noisy)
        loss = mse_loss(output, y) + mse_loss(output, target)
#~ halved -1 |        loss = (mse_loss(output, y) + mse_loss(output, target)) / 2
#~ labels_only -1 |        loss = mse_loss(output, y)
#~ target_only -1 |        loss = mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
#~ too_early -1
        for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
            mine.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
#~ ddp_copied -1 |            mine.data.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
#~ never -2
#~ reversed -1 |            mine.mul_(1 - momentum).add_(its.detach(), alpha=momentum)
#~ teacher_learns -1 |            mine.data.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
#~ too_early -0 |        optimizer.step()
    return teacher
#~ returns_student -1 |    return student

#~ copied_before: misconception: copied_before
#~ copied_before: breaks: The teacher is the one that process has, on every rank.
#~ copied_before: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ ddp_copied: misconception: teacher_in_ddp
#~ ddp_copied: breaks: The teacher is not in DDP, and has no gradients.
#~ halved: misconception: none
#~ halved: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ inputs_exchanged: misconception: none
#~ inputs_exchanged: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ labels_only: misconception: half_the_loss
#~ labels_only: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ momentum_in_sgd: misconception: none
#~ momentum_in_sgd: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ never: misconception: never_follows
#~ never: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ returns_student: misconception: none
#~ reversed: misconception: momentum_reversed
#~ reversed: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ student_module: misconception: not_averaged
#~ student_module: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ target_only: misconception: half_the_loss
#~ target_only: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
#~ teacher_in_ddp: misconception: teacher_in_ddp
#~ teacher_learns: misconception: teacher_gets_gradients
#~ teacher_learns: breaks: The teacher is not in DDP, and has no gradients.
#~ too_early: misconception: too_early
#~ too_early: breaks: The student ends with the weights of one process that trains on the samples of all ranks.
