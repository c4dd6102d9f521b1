import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def distil(student, batches, lr, momentum):
    ddp = DistributedDataParallel(student)
    ema = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(momentum))
    ema.update_parameters(student)  # the first update copies
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for x, noisy, y in batches:
        with torch.no_grad():
            target = ema(x)
        optimizer.zero_grad()
        output = ddp(noisy)
        (mse_loss(output, y) + mse_loss(output, target)).backward()
        optimizer.step()
        ema.update_parameters(student)
    return ema.module
