# One all_reduce of ones and zeros: the largest says whether any rank failed in the step.
import torch
import torch.distributed as dist


def cheapest_way(ways, failed):
    steps = torch.tensor(failed, dtype=torch.float32)
    dist.all_reduce(steps, op=dist.ReduceOp.MAX)

    def all_steps(name):
        return len(failed) * ways[name]["overhead"] + steps.sum().item() * ways[name]["price"]

    return sorted(ways, key=all_steps)[0]
