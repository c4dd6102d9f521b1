# kind: rank_left
# culprits: 2
# ranks: 3
# Early stopping is decided on each rank alone: one has had enough and returns.
import torch
import torch.distributed as dist


def train(rank):
    best, bad = float("inf"), 0
    for epoch in range(8):
        loss = torch.tensor([1.0 + epoch if rank == 2 else 1.0 / (epoch + 1)])
        bad = 0 if loss < best else bad + 1
        best = min(best, float(loss))
        if bad >= 2:
#~ mended -1 |        enough = torch.tensor(float(bad >= 2))
#~ |        dist.all_reduce(enough, dist.ReduceOp.MAX)
#~ |        if enough:
            return best
        dist.all_reduce(loss)
    return best


dist.init_process_group("gloo")
train(dist.get_rank())
dist.destroy_process_group()
