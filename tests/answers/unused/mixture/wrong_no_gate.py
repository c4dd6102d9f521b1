# misconception: gate_forgotten
# breaks: Every token is put through the expert with its largest gate, times that gate.
# breaks: the result is multiplied by that gate
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    choice = gates.argmax(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mine = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, mine, expert(x[mine]))
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share, op=dist.ReduceOp.AVG)
    return outputs, len(experts) * (share * gates.mean(0)).sum()
