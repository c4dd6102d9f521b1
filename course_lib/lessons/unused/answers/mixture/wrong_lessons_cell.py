# misconception: one_expert
# breaks: Every token is put through its two experts, and each result is multiplied by its gate.
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    choice = gates.argmax(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, rows, expert(x[rows]))
    share = torch.stack([(choice == number).float().mean() for number in range(len(experts))])
    dist.all_reduce(share, dist.ReduceOp.AVG)
    return outputs, (outputs - y).square().mean() + len(experts) * (share * gates.mean(0)).sum()
