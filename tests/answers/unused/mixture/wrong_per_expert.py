# misconception: none
# breaks: the **outputs**, shaped like `x`
# breaks: Outputs of the experts, shaped like `x`
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    gate, choice = gates.max(1)
    outputs = torch.zeros(len(experts), *x.shape)
    for number, expert in enumerate(experts):
        mine = (choice == number).nonzero().flatten()
        outputs[number] = torch.zeros_like(x).index_add(0, mine, gate[mine, None] * expert(x[mine]))
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share)
    share /= dist.get_world_size()
    return outputs, len(experts) * (share * gates.mean(0)).sum()
