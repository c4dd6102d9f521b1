# misconceptions: tolerance, missing_gradient
import torch
import torch.distributed as dist


def disagreeing(model):
    found = []
    for name, p in model.module.named_parameters():
        g = p.grad.detach().clone() if p.grad is not None else torch.zeros_like(p)
        everyone = [torch.empty_like(g) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, g)
        stacked = torch.stack(everyone)
        if not torch.allclose(stacked, stacked[:1].expand_as(stacked), atol=1e-5):
            found.append(name)
    return found
