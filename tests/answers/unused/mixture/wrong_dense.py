# misconception: everyone_computes
# breaks: Every token goes through one expert only.
# breaks: each token goes through the one expert
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    gate, choice = gates.max(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        outputs = outputs + ((choice == number) * gate)[:, None] * expert(x)
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share, op=dist.ReduceOp.AVG)
    return outputs, len(experts) * (share * gates.mean(0)).sum()
