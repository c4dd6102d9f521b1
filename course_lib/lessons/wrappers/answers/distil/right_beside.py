import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def distil(student, batches, lr, momentum):
#~ copied_before_left -0 |    teacher = copy.deepcopy(student).requires_grad_(False).eval()
#~ copied_before -0 |    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    ddp = DistributedDataParallel(student)
#~ own_start -1 |    ddp = DistributedDataParallel(student, broadcast_buffers=False)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
#~ copied_before -1
#~ copied_before_left -1
#~ ddp_copied -1 |    teacher = copy.deepcopy(ddp).eval()
#~ teacher_in_ddp -1 |    teacher = DistributedDataParallel(copy.deepcopy(student).requires_grad_(False)).eval()
#~ teacher_learns -1 |    teacher = copy.deepcopy(student).eval()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
#~ lesson_cell -2 |    teacher = copy.deepcopy(student).requires_grad_(False)
#~ |    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
#~ in_train_mode -2 |    teacher = copy.deepcopy(student).requires_grad_(False)
#~ |    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
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
#~ nothing_follows -2
#~ reversed -1 |            mine.mul_(1 - momentum).add_(its.detach(), alpha=momentum)
#~ teacher_learns -1 |            mine.data.mul_(momentum).add_(its.detach(), alpha=1 - momentum)
#~ too_early -0 |        optimizer.step()
        for mine, its in zip(teacher.buffers(), student.buffers(), strict=True):
            dist.broadcast(its, src=0)
            mine.copy_(its)
#~ buffers_left -3
#~ own_buffers -2 |            mine.copy_(its)
#~ mean_buffers -2 |            if its.is_floating_point():
#~ |                dist.all_reduce(its, dist.ReduceOp.AVG)
#~ |            mine.copy_(its)
#~ buffers_follow -1 |            if mine.is_floating_point():
#~ |                mine.lerp_(its, 1 - momentum)
#~ own_follow -2 |            if mine.is_floating_point():
#~ |                mine.lerp_(its, 1 - momentum)
#~ all_follow -1 |            mine.mul_(momentum).add_(its, alpha=1 - momentum)
#~ lesson_cell -3
#~ nothing_follows -3
#~ on_rank_0 -3 |        if dist.get_rank() == 0:
#~ |            for mine, its in zip(teacher.buffers(), student.buffers(), strict=True):
#~ |                mine.copy_(its)
#~ whole -3 |        teacher.load_state_dict(student.state_dict())
#~ |        for buffer in teacher.buffers():
#~ |            dist.broadcast(buffer, src=0)
#~ whole_and_own -3 |        teacher.load_state_dict(student.state_dict())
#~ at_the_end -3 |    for mine, its in zip(teacher.buffers(), student.buffers(), strict=True):
#~ |        dist.broadcast(its, src=0)
#~ |        mine.copy_(its)
#~ copied_before_left -3
    return teacher
#~ returns_student -1 |    return student

#~ all_follow: misconception: statistics_follow
#~ buffers_follow: misconception: statistics_follow
#~ buffers_left: misconception: buffers_left
#~ copied_before: misconception: copied_before
#~ copied_before: breaks: The teacher is the one that process has, on every rank.
#~ copied_before: breaks: The student ends with the weights that one process finds for all ranks.
#~ ddp_copied: misconception: teacher_in_ddp
#~ ddp_copied: breaks: The teacher is not in DDP, and has no gradients.
#~ halved: misconception: none
#~ halved: breaks: The student ends with the weights that one process finds for all ranks.
#~ inputs_exchanged: misconception: none
#~ inputs_exchanged: breaks: The student ends with the weights that one process finds for all ranks.
#~ in_train_mode: misconception: teacher_in_train_mode
#~ at_the_end: misconception: buffers_left
#~ copied_before_left: misconceptions: copied_before, buffers_left
#~ on_rank_0: misconception: buffers_left
#~ own_start: misconception: own_statistics
#~ whole: misconception: no_momentum
#~ whole_and_own: misconceptions: no_momentum, own_statistics
#~ labels_only: misconception: half_the_loss
#~ labels_only: breaks: The student ends with the weights that one process finds for all ranks.
#~ lesson_cell: misconception: teacher_in_train_mode
#~ mean_buffers: misconception: statistics_averaged
#~ momentum_in_sgd: misconception: none
#~ momentum_in_sgd: breaks: The student ends with the weights that one process finds for all ranks.
#~ never: misconception: never_follows
#~ never: breaks: The student ends with the weights that one process finds for all ranks.
#~ nothing_follows: misconception: never_follows
#~ own_buffers: misconception: own_statistics
#~ own_follow: misconceptions: statistics_follow, own_statistics
#~ returns_student: misconception: none
#~ reversed: misconception: momentum_reversed
#~ reversed: breaks: The student ends with the weights that one process finds for all ranks.
#~ student_module: misconception: not_averaged
#~ student_module: breaks: The student ends with the weights that one process finds for all ranks.
#~ target_only: misconception: half_the_loss
#~ target_only: breaks: The student ends with the weights that one process finds for all ranks.
#~ teacher_in_ddp: misconception: teacher_in_ddp
#~ teacher_learns: misconception: teacher_gets_gradients
#~ teacher_learns: breaks: The teacher is not in DDP, and has no gradients.
#~ too_early: misconception: too_early
#~ too_early: breaks: The student ends with the weights that one process finds for all ranks.
