# The ranks' mean of the counts is what a rank has to divide by; one token after the other.
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    gate, choice = gates.topk(2)
    rows = [
        sum(g * experts[int(e)](token[None])[0] for g, e in zip(*two)) for token, *two in zip(x, gate, choice)
    ]
    outputs = torch.stack(rows) if rows else torch.zeros_like(x)
    nothing = sum(expert(x[:0]).sum() for expert in experts)
#~ one_by_one -1 |    nothing = 0
    counts = torch.nn.functional.one_hot(choice, len(experts)).sum((0, 1)).float()
    dist.all_reduce(counts, op=dist.ReduceOp.AVG)
    tokens = counts.sum() / 2
    error = (outputs - y).square().mean(1).sum() / tokens
    return outputs, nothing + error + len(experts) * (counts / counts.sum()) @ (gates.sum(0) / tokens)

#~ one_by_one: misconception: idle_skipped
