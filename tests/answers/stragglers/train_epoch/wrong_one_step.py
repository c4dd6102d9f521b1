# misconception: none
# breaks: there is one step of the optimizer
# breaks: round by round
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    rounds = torch.tensor(len(batches))
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    samples = torch.zeros(int(rounds))
    for number, (inputs, _) in enumerate(batches):
        samples[number] = len(inputs)
    dist.all_reduce(samples)
    optimizer.zero_grad()
    for number in range(int(rounds)):
        inputs, targets = batches[number] if number < len(batches) else (torch.zeros(0, 4), torch.zeros(0, 2))
        loss = losses_of(ddp(inputs), targets).sum() / samples[number]
        (loss * dist.get_world_size()).backward()
    optimizer.step()
