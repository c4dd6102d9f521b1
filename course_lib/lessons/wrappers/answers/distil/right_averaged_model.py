import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    ema = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(momentum))
#~ use_buffers -1 |    ema = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(momentum), use_buffers=True)
    ema.update_parameters(student)  # the first update copies
#~ no_first_update -1
    ema.eval()
#~ no_eval -1
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        with torch.no_grad():
            target = ema(x)
        optimizer.zero_grad()
        output = ddp(noisy)
        (mse_loss(output, y) + mse_loss(output, target)).backward()
        optimizer.step()
        ema.update_parameters(student)  # copies buffers
        for buffer in ema.module.buffers():
            dist.broadcast(buffer, src=0)
#~ no_broadcast -2
    return ema.module

#~ no_broadcast: misconception: own_statistics
#~ no_broadcast: breaks: The teacher has rank 0's running statistics of the student, on every rank.
#~ no_eval: misconception: teacher_in_train_mode
#~ no_first_update: misconception: first_update_copies
#~ use_buffers: misconception: statistics_follow
