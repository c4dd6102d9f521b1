# misconception: first_update_copies
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    ema = AveragedModel(student, avg_fn=lambda old, new, count: momentum * old + (1 - momentum) * new)
    ema.requires_grad_(False).eval()
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        optimizer.zero_grad()
        output = ddp(noisy)
        loss = mse_loss(output, y) + mse_loss(output, ema(x))
        loss.backward()
        optimizer.step()
        ema.update_parameters(student)
        for mine, theirs in zip(ema.module.buffers(), student.buffers()):
            mine.copy_(theirs)
            dist.broadcast(mine, src=0)
    return ema.module
