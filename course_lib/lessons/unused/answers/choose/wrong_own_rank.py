# misconception: none
import torch.distributed as dist


def choose(steps, weight_decay):
    mine = steps[dist.get_rank()]
    if all(step[-1] == "both" for step in mine):
        return "default"
    if len(mine[0]) == 1 and all(used == mine[0][0] for step in mine for used in step):
        return "static_graph"
    return "find_unused_parameters" if weight_decay else "touch"
