# Sorts tokens by expert, and gathers counts; idle experts are touched by hand.
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    choice = gates.argmax(dim=-1)
    order = choice.argsort()
    counts = [int((choice == number).sum()) for number in range(len(experts))]
    pieces, touched = [], 0
    for piece, expert in zip(x[order].split(counts), experts, strict=True):
        if len(piece):
            pieces.append(expert(piece))
        else:
            touched = touched + 0 * sum(p.sum() for p in expert.parameters())
    outputs = torch.cat(pieces)[order.argsort()] * gates.gather(1, choice[:, None])
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, counts)
    total = torch.tensor(everyones).sum(0)
    return outputs, len(experts) * (total / total.sum() * gates.mean(0)).sum() + touched
