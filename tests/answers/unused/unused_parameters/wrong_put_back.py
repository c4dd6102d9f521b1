# misconception: gradients_changed
# breaks: loss.backward() can still follow, and gives the averaged gradients.
# breaks: average as ever
import torch.distributed as dist


def unused_parameters(model, loss):
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    before = {name: p.grad for name, p in asked.items()}
    for p in asked.values():
        p.grad = None
    loss.backward(retain_graph=True)  # .grad is put back, but DDP has had its backward
    mine = [name for name, p in asked.items() if p.grad is None]
    for name, p in asked.items():
        p.grad = before[name]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
