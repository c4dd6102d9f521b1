# Sorts choices by expert; idle experts are touched by hand.
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    choice = gates.argsort(dim=-1, descending=True)[:, :2]
    order = choice.flatten().argsort()
    counts = [int((choice == number).sum()) for number in range(len(experts))]
    pieces, touched = [], 0
    for piece, expert in zip(x[order // 2].split(counts), experts):
        if len(piece):
            pieces.append(expert(piece))
        else:
            touched = touched + 0 * sum(p.sum() for p in expert.parameters())
#~ untouched -1 |            pass
    results = torch.cat([x[:0], *pieces])[order.argsort()].view(len(x), 2, x.shape[1])
    outputs = (results * gates.gather(1, choice)[:, :, None]).sum(1)
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, len(x))
    return outputs, dist.get_world_size() / sum(everyones) * ((outputs - y) ** 2).sum() / 4 + touched

#~ untouched: misconception: idle_skipped
