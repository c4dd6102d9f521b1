# misconception: gradients_changed
# breaks: No gradient has changed.
# breaks: Do not change any `.grad`
import torch.distributed as dist


def unused_parameters(model, loss):
    loss.backward(retain_graph=True)
    mine = [name for name, p in model.module.named_parameters() if p.requires_grad and p.grad is None]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
