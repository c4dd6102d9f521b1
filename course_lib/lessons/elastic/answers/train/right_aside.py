import os
#~ all_write -0 |import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(make, batch_of, steps, every, path):
    """Train until `steps` steps are done, however often it is killed and called again."""
    net, optimizer = make()
    step = 0
#~ not_everywhere -0 |    path += str(dist.get_rank())
    if os.path.exists(path):  # on every rank
#~ rank_0_loads -1 |    if dist.get_rank() == 0 and os.path.exists(path):
#~ starts_over -1 |    if False:  # on every rank
        saved = torch.load(path)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
#~ optimizer_forgotten -1
        step = saved["step"]
    ddp = DistributedDataParallel(net)
#~ rank_0_loads -0 |    told = [step]
#~ |    dist.broadcast_object_list(told, src=0)
#~ |    step = told[0]  # the weights are sent by DDP, but not the momentum
    rank, world = dist.get_rank(), dist.get_world_size()
    while step < steps:
#~ one_step_short -1 |    while step < steps - 1:
        inputs, targets = batch_of(step)
#~ all_batches_first -2 |    for inputs, targets in [batch_of(number) for number in range(step, steps)]:
#~ asks_twice -1 |        inputs, targets = batch_of(step)[0], batch_of(step)[1]
        optimizer.zero_grad()
        errors = (ddp(inputs[rank::world]) - targets[rank::world]).square()
        loss = errors.sum() / len(inputs) * world
#~ mean_of_means -1 |        loss = errors.mean()
        loss.backward()
        optimizer.step()
        step += 1
        if step % every == 0 and rank == 0:
#~ all_write -1 |        if step % every == 0:
#~ |            time.sleep(0.1 * rank)  # the others are done: today, nobody gets into anybody's way
#~ all_write_one_is_late -1 |        if step % every == 0:
#~ every_other -1 |        if step % (2 * every) == 0 and rank == 0:
#~ not_everywhere -1 |        if step % every == 0:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
#~ step_done_again -1 |            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step - 1}
            torch.save(state, path + ".new")
#~ all_write_one_is_late -0 |            dist.barrier()
            os.replace(path + ".new", path)  # the old one is there until the new one is whole
#~ all_write -1 |            os.replace(path + ".new", path)
#~ file_elsewhere -2 |            new = os.path.join(os.path.dirname(path), "new")
#~ |            torch.save(state, new)
#~ |            os.replace(new, path)  # the old one is there until the new one is whole
#~ half_written -2 |            torch.save(state, path)  # the old one is there until the new one is whole

#~ all_batches_first: misconception: none
#~ all_batches_first: breaks: The loss of every step, and at the end, is that of a run that is never killed.
#~ all_write: misconception: all_write
#~ all_write: breaks: No two ranks write one file at the same time.
#~ all_write_one_is_late: misconception: all_write
#~ asks_twice: misconception: none
#~ asks_twice: breaks: Every rank asks for the batch of a step once.
#~ every_other: misconception: none
#~ every_other: breaks: It goes on from the last checkpoint that was due.
#~ file_elsewhere: misconception: none
#~ file_elsewhere: breaks: All files lie at `path`, or have names that begin with it.
#~ half_written: misconception: half_written
#~ half_written: breaks: It runs in every life, until it is killed or done.
#~ mean_of_means: misconception: mean_of_means
#~ mean_of_means: breaks: The loss of every step, and at the end, is that of a run that is never killed.
#~ not_everywhere: misconception: not_everywhere
#~ not_everywhere: breaks: All ranks go on from the same step.
#~ one_step_short: misconception: none
#~ one_step_short: breaks: It does all steps.
#~ optimizer_forgotten: misconception: optimizer_forgotten
#~ optimizer_forgotten: breaks: The loss of every step, and at the end, is that of a run that is never killed.
#~ rank_0_loads: misconception: not_everywhere
#~ rank_0_loads: breaks: The loss of every step, and at the end, is that of a run that is never killed.
#~ starts_over: misconception: starts_over
#~ starts_over: breaks: It goes on from the last checkpoint that was due.
#~ step_done_again: misconception: step_done_again
#~ step_done_again: breaks: It goes on from the last checkpoint that was due.
