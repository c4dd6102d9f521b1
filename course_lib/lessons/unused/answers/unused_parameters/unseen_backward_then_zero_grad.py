# misconception: gradients_changed
import torch.distributed as dist


def unused_parameters(model, loss):
    model.zero_grad()
    loss.backward(retain_graph=True)
    unused = set()
    for name, param in model.module.named_parameters():
        if param.requires_grad and param.grad is None:
            unused.add(name)
    model.zero_grad()
    gathered = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(gathered, unused)
    return sorted(set.union(*gathered))
