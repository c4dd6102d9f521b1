# Writes by turns to two files and takes the newest that can be read; rank 0 tells the others what it holds.
import copy
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def newest(path):
    found = []
    for name in (path + ".a", path + ".b"):
        if os.path.exists(name):
            try:
                found.append(torch.load(name))
            except Exception:
                continue
    return max(found, key=lambda state: state["step"], default=None)


def train(make, batch_of, steps, every, path):
    net, optimizer = make()
    box = [newest(path) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    start = 0
    if box[0] is not None:
        net.load_state_dict(box[0]["net"])
        optimizer.load_state_dict(copy.deepcopy(box[0]["optimizer"]))
        start = box[0]["step"]
    model = DistributedDataParallel(net)
    size = dist.get_world_size()
    for step in range(start, steps):
        inputs, targets = (part.chunk(size)[dist.get_rank()] for part in batch_of(step))
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets, reduction="sum")
        (loss * size / 8).backward()
#~ chunks_alike -2 |        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        done = step + 1
        if done % every == 0 and dist.get_rank() == 0:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": done}
            torch.save(state, path + (".a" if done // every % 2 else ".b"))

#~ chunks_alike: misconception: mean_of_means
