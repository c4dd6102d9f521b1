# The mean number of tokens is what a rank has to divide by; one token after the other.
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    gate, choice = gates.topk(2)
    rows = [
        sum(g * experts[int(e)](token[None])[0] for g, e in zip(*two)) for token, *two in zip(x, gate, choice)
    ]
    outputs = torch.stack(rows) if rows else torch.zeros_like(x)
    nothing = gates[:0].sum() + sum(expert(x[:0]).sum() for expert in experts)
#~ one_by_one -1 |    nothing = 0
    tokens = torch.tensor(float(len(x)))
    dist.all_reduce(tokens, op=dist.ReduceOp.AVG)
    return outputs, nothing + (outputs - y).square().mean(1).sum() / tokens

#~ one_by_one: misconception: idle_skipped
