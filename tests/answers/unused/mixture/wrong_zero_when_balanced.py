# misconception: none
# breaks: The mean of all ranks' balance terms is the balance term of one process.
# breaks: the sum, over experts, of *share* times *mean gate*
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
    share /= dist.get_world_size()
    return outputs, len(experts) * (share * gates.mean(0)).sum() - 1
