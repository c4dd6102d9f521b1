from contextlib import nullcontext


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    count = len(micro_batches)
#~ not_divided -1
#~ off_by_one -1
    optimizer.zero_grad()
#~ left_over -2
#~ short_group -2
#~ zeroed_inside -1
    for i, (inputs, targets) in enumerate(micro_batches):
        first = i - i % every
        size = min(every, count - first)
        last = i == first + size - 1
#~ left_over -3 |        last = (i + 1) % every == 0
#~ not_divided -3 |        last = (i + 1) % every == 0 or i == len(micro_batches) - 1
#~ off_by_one -3 |        last = i % every == 0 or i == len(micro_batches) - 1
#~ short_group -3 |        last = (i + 1) % every == 0 or i == len(micro_batches) - 1
#~ zeroed_inside -3 |        last = (i + 1) % every == 0 or i == count - 1
#~ |        optimizer.zero_grad()
#~ zeroed_every -0 |        optimizer.zero_grad()
#~ zeroed_undivided -0 |        optimizer.zero_grad()
        with nullcontext() if last else ddp.no_sync():
            loss = loss_of(ddp(inputs), targets)
            (loss / size).backward()
#~ zeroed_every -1 |            (loss / every).backward()
#~ zeroed_undivided -1 |            loss.backward()
#~ left_over -2 |            (loss_of(ddp(inputs), targets) / every).backward()
#~ not_divided -2 |            loss_of(ddp(inputs), targets).backward()
#~ off_by_one -2 |            (loss_of(ddp(inputs), targets) / min(every, len(micro_batches))).backward()
#~ short_group -2 |            (loss_of(ddp(inputs), targets) / every).backward()
#~ zeroed_inside -2 |            (loss_of(ddp(inputs), targets) / min(every, count - (i - i % every))).backward()
        if last:
            optimizer.step()
#~ full_only -1 |            if size == every:
#~ |                optimizer.step()
            optimizer.zero_grad()
#~ step_inside -3 |        optimizer.step()
#~ |        if last:
#~ |            optimizer.zero_grad()
#~ zeroed_inside -1
#~ zeroed_undivided -1
#~ zeroed_every -1

#~ full_only: misconception: left_over
#~ left_over: misconception: left_over
#~ left_over: breaks: Every group ends with a step of the optimizer, also one that is not full.
#~ not_divided: misconception: not_divided
#~ not_divided: breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
#~ off_by_one: misconception: none
#~ off_by_one: breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
#~ short_group: misconception: short_group
#~ short_group: breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
#~ step_inside: misconception: none
#~ step_inside: breaks: Every group ends with a step of the optimizer, also one that is not full.
#~ zeroed_inside: misconception: zeroed_inside
#~ zeroed_inside: breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
#~ zeroed_every: misconception: zeroed_inside
#~ zeroed_undivided: misconception: zeroed_inside
