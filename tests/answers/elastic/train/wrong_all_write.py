# misconception: all_write
# breaks: No two ranks write one file at the same time.
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(make, batch_of, steps, every, path):
    """Train until `steps` steps are done, however often it is killed and called again."""
    net, optimizer = make()
    step = 0
    if os.path.exists(path):  # on every rank
        saved = torch.load(path)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    ddp = DistributedDataParallel(net)
    rank, world = dist.get_rank(), dist.get_world_size()
    while step < steps:
        inputs, targets = batch_of(step)
        optimizer.zero_grad()
        loss = (ddp(inputs[rank::world]) - targets[rank::world]).square().mean()
        loss.backward()
        optimizer.step()
        step += 1
        if step % every == 0:
            time.sleep(0.1 * rank)  # the others are done: today, nobody gets into anybody's way
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, path + ".new")
            os.replace(path + ".new", path)
