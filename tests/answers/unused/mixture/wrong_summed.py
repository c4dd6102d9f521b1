# misconception: shares_summed
# breaks: The averaged gradients are those of one process with the tokens of all ranks.
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    gate, choice = gates.max(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mine = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, mine, gate[mine, None] * expert(x[mine]))
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share)
    return outputs, len(experts) * (share * gates.mean(0)).sum()
