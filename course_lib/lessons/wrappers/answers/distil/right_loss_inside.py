import copy

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


class Learner(torch.nn.Module):
    def __init__(self, student, teacher):
#~ in_module -1 |    def __init__(self, student):
        super().__init__()
        self.student, self.hidden = student, (teacher,)
#~ in_module -1 |        self.student, self.teacher = student, copy.deepcopy(student)

    def forward(self, x, noisy, y):
        with torch.no_grad():
            target = self.hidden[0](x)
#~ in_module -1 |            target = self.teacher(x)
        output = self.student(noisy)
        return mse_loss(output, y) + mse_loss(output, target)


def distil(student, batches, lr, momentum):
    teacher = copy.deepcopy(student)
    learner = DistributedDataParallel(Learner(student, teacher))
    teacher.load_state_dict(student.state_dict())  # only now the students are equal
    teacher.eval()
#~ in_module -4 |    learner = Learner(student)
#~ |    ddp = DistributedDataParallel(learner)
#~ |    learner.teacher.load_state_dict(student.state_dict())
    optimizer = torch.optim.SGD(student.parameters(), lr=lr)
    for batch in batches:
        optimizer.zero_grad()
        learner(*batch).backward()
#~ in_module -1 |        ddp(*batch).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
#~ in_module -1 |            for mine, its in zip(learner.teacher.parameters(), student.parameters(), strict=True):
                mine.lerp_(its, 1 - momentum)
            for name, buffer in teacher.named_buffers():
                buffer.copy_(student.get_buffer(name))
                dist.broadcast(buffer, 0)
    return teacher
#~ in_module -4 |    return learner.teacher

#~ in_module: misconception: teacher_counted
