# Under no_sync, with the sending of buffers put off for good: nothing in the try waits for anybody.
#~ catches_everything -1
#~ frozen -1
#~ half_averaged -1
#~ half_gradient -1
#~ missed_step -1
#~ nan -1
#~ not_zeroed -1
#~ own_part -1
#~ own_part_gathered -1
#~ ranks_counted -1
#~ skipped_by_all -1
#~ statistics -1
#~ zeros_counted -1
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    before = [buffer.clone() for buffer in ddp.buffers()]
#~ statistics -1
#~ only_the_mean -1 |    before = [buffer.clone() for name, buffer in ddp.named_buffers() if name.endswith("running_mean")]
    optimizer.zero_grad()
#~ not_zeroed -1
    samples = torch.tensor(float(len(inputs)))
#~ missed_step -1 |    samples, good = torch.tensor(float(len(inputs))), True
#~ ranks_counted -1 |    samples = torch.tensor(1.0)
    ddp.require_forward_param_sync = False
#~ own_part -1
#~ own_part_gathered -1
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).sum().backward()
#~ half_averaged -1 |            losses_of(ddp(inputs), targets).mean().backward()
#~ ranks_counted -1 |            losses_of(ddp(inputs), targets).mean().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
#~ catches_everything -3 |    except RuntimeError:
        samples.zero_()
#~ missed_step -0 |        good = False
        for buffer, old in zip(ddp.buffers(), before, strict=True):
            buffer.copy_(old)
#~ statistics -2
#~ only_the_mean -2 |        means = [buffer for name, buffer in ddp.named_buffers() if name.endswith("running_mean")]
#~ |        for buffer, old in zip(means, before, strict=True):
#~ |            buffer.copy_(old)
    if not samples:
        optimizer.zero_grad()
#~ half_averaged -2
#~ half_gradient -2
#~ skipped_by_all -0 |    good = (samples > 0).float()
#~ |    dist.all_reduce(good)
#~ zeros_counted -0 |    drawn = torch.tensor(float(len(inputs)))
#~ |    dist.all_reduce(drawn)
    dist.all_reduce(samples)
#~ own_part_gathered -1 |    everyones = [None] * dist.get_world_size()
#~ |    dist.all_gather_object(everyones, samples)
#~ |    samples = sum(everyones)
    if samples == 0:
#~ skipped_by_all -1 |    if good < dist.get_world_size():
        return
#~ half_averaged -2
#~ nan -2
    for p in ddp.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
            p.grad /= samples
#~ frozen -4 |        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
#~ |        dist.all_reduce(p.grad)
#~ |        p.grad /= samples
#~ half_averaged -1 |            p.grad /= dist.get_world_size()
#~ zeros_counted -1 |            p.grad /= drawn
    optimizer.step()
#~ missed_step -1 |    if good:
#~ |        optimizer.step()

#~ catches_everything: misconception: catches_everything
#~ catches_everything: breaks: An error that has nothing to do with memory is raised.
#~ frozen: misconception: frozen_moved
#~ frozen: breaks: They are those of one process that has left out the batches of the ranks that failed.
#~ half_gradient: misconception: half_gradient
#~ half_gradient: breaks: They are those of one process that has left out the batches of the ranks that failed.
#~ half_averaged: misconception: half_gradient
#~ missed_step: misconception: missed_step
#~ missed_step: breaks: All ranks have the same weights after each step, bit by bit.
#~ nan: misconception: nobody_good
#~ nan: breaks: They are those of one process that has left out the batches of the ranks that failed.
#~ not_zeroed: misconception: none
#~ not_zeroed: breaks: They are those of one process that has left out the batches of the ranks that failed.
#~ only_the_mean: misconception: statistics
#~ own_part: misconception: own_part
#~ own_part_gathered: misconception: own_part
#~ ranks_counted: misconception: ranks_counted
#~ ranks_counted: breaks: They are those of one process that has left out the batches of the ranks that failed.
#~ skipped_by_all: misconception: skipped_by_all
#~ skipped_by_all: breaks: They are those of one process that has left out the batches of the ranks that failed.
#~ statistics: misconception: statistics
#~ statistics: breaks: A batch that has run out of memory leaves no trace in running statistics.
#~ zeros_counted: misconception: zeros_counted
#~ zeros_counted: breaks: They are those of one process that has left out the batches of the ranks that failed.
