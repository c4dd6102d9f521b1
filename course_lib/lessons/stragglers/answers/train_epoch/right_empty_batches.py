import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    rounds = torch.tensor(len(batches))
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    samples = torch.zeros(int(rounds))
    for number, (inputs, _) in enumerate(batches):
        samples[number] = len(inputs)
    dist.all_reduce(samples)
#~ no_backward -4
#~ no_backward_without_forward -4
#~ one_step -0 |    optimizer.zero_grad()
    for number in range(int(rounds)):
#~ no_backward_counted_before -7 |    sizes = [None] * dist.get_world_size()
#~ |    dist.all_gather_object(sizes, [len(inputs) for inputs, _ in batches])
#~ |    for number in range(max(map(len, sizes))):
#~ |        total = sum(each[number] for each in sizes if number < len(each))
        inputs, targets = batches[number] if number < len(batches) else (torch.zeros(0, 4), torch.zeros(0, 2))
#~ needs_a_batch -1 |        inputs, targets = batches[number] if number < len(batches) else (batches[0][0][:0], batches[0][1][:0])
#~ no_backward -0 |        count = torch.tensor(float(len(inputs)))
#~ |        dist.all_reduce(count)
#~ no_backward_without_forward -1 |        count = torch.tensor(float(len(batches[number][0]) if number < len(batches) else 0))
#~ |        dist.all_reduce(count)
#~ no_join -8 |    for inputs, targets in batches:
#~ |        total = torch.tensor(float(len(inputs)))
#~ |        dist.all_reduce(total)
#~ rounds_dropped -7 |    dist.all_reduce(rounds, op=dist.ReduceOp.MIN)
#~ |    for inputs, targets in batches[: int(rounds)]:
#~ |        total = torch.tensor(float(len(inputs)))
#~ |        dist.all_reduce(total)
        optimizer.zero_grad()
#~ one_step -1
        loss = losses_of(ddp(inputs), targets).sum() / samples[number]
        (loss * dist.get_world_size()).backward()
#~ no_backward_counted_before -2 |        losses = losses_of(ddp(inputs), targets)
#~ |        if len(inputs):
#~ |            (losses.sum() * dist.get_world_size() / total).backward()
#~ no_backward_without_forward -2 |        if number < len(batches):
#~ |            inputs, targets = batches[number]
#~ |            (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / count).backward()
#~ no_join -2 |        (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / total).backward()
#~ rounds_dropped -2 |        (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / total).backward()
        optimizer.step()
#~ no_backward -3 |        losses = losses_of(ddp(inputs), targets)
#~ |        if len(inputs):
#~ |            (losses.sum() * dist.get_world_size() / count).backward()
#~ |            optimizer.step()
#~ one_step -1 |    optimizer.step()

#~ needs_a_batch: misconception: none
#~ no_backward: misconception: waits_for_ever
#~ no_backward_counted_before: misconception: waits_for_ever
#~ no_backward_without_forward: misconception: waits_for_ever
#~ no_join: misconception: waits_for_ever
#~ one_step: misconception: none
#~ rounds_dropped: misconception: rounds_dropped
#~ rounds_dropped: breaks: After the first epoch, all ranks have the weights of one process that took all samples of a round at once.
