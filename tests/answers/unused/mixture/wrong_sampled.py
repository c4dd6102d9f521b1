# misconception: none
# breaks: Every token is put through the expert with its largest gate, times that gate.
# breaks: each token goes through the one expert with its largest gate
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    choice = torch.multinomial(gates.detach(), 1).flatten()
    gate = gates.gather(1, choice[:, None]).flatten()
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mine = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, mine, gate[mine, None] * expert(x[mine]))
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share)
    share /= dist.get_world_size()
    return outputs, len(experts) * (share * gates.mean(0)).sum()
