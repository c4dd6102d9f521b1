# misconception: missing_gradient
# breaks: it must come to an end whatever the gradients are
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.module.named_parameters():
        if p.grad is None:
            continue
        others = [torch.empty_like(p.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(others, p.grad)
        if not all(torch.equal(others[0], other) for other in others):
            names.append(name)
    return names
