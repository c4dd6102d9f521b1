# misconception: idle_skipped
# breaks: Every parameter gets a gradient on every rank, so that plain DDP can average.
# breaks: After `backward()` all gradients are to be those of one process that has the tokens of all ranks.
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    gate, choice = gates.max(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mine = choice == number
        if mine.any():
            outputs[mine] = gate[mine, None] * expert(x[mine])
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share, op=dist.ReduceOp.AVG)
    return outputs, len(experts) * (share * gates.mean(0)).sum()
