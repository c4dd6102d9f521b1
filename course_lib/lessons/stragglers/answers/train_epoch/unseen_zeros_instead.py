# misconception: mean_of_means
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    """A rank without a batch sends zeros."""
    module = ddp.module
    rounds = torch.tensor([len(batches)])
    dist.all_reduce(rounds, dist.ReduceOp.MAX)
    for i in range(rounds.item()):
        module.zero_grad(set_to_none=False)
        if i < len(batches):
            x, y = batches[i]
            losses_of(module(x), y).mean().backward()
        for p in module.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()
