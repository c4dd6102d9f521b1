# misconception: reduced_each_time
import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    params = [p for p in ddp.parameters() if p.requires_grad]
    device = params[0].device
    rounds = torch.tensor(len(micro_batches), device=device)
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    numbers = torch.zeros(2, dtype=torch.float64, device=device)
    grad = torch.zeros(sum(p.numel() for p in params), dtype=params[0].dtype, device=device)

    for r in range(rounds.item()):
        if r < len(micro_batches):
            inputs, targets = micro_batches[r]
            losses = losses_of(ddp.module(inputs), targets)
            parts = torch.autograd.grad(losses.sum(), params)
            flat = torch.cat([g.flatten() for g in parts])
            numbers[0] += losses.sum().item()
            numbers[1] += len(losses)
        else:
            flat = torch.zeros_like(grad)  # nothing left here, but the others wait
        dist.all_reduce(flat)
        grad += flat

    dist.all_reduce(numbers)
    loss_sum, samples = numbers.tolist()
    for p, g in zip(params, (grad / samples).split([p.numel() for p in params])):
        p.grad = g.view_as(p).clone()
    return loss_sum / samples
