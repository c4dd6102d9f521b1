# misconception: none
# breaks: a rank may have none at all
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    rounds = torch.tensor(len(batches))
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    samples = torch.zeros(int(rounds))
    for number, (inputs, _) in enumerate(batches):
        samples[number] = len(inputs)
    dist.all_reduce(samples)
    for number in range(int(rounds)):
        inputs, targets = batches[number] if number < len(batches) else (batches[0][0][:0], batches[0][1][:0])
        optimizer.zero_grad()
        loss = losses_of(ddp(inputs), targets).sum() / samples[number]
        (loss * dist.get_world_size()).backward()
        optimizer.step()
