# misconception: own_norm
# breaks: If it is not larger, or not finite, all gradients are left as they are.
# breaks: leave them as they are, on all ranks
# breaks: the same on every rank
# breaks: Clip by the norm of the whole model
from torch.nn.utils import clip_grad_norm_


def clip_global_norm(shared, own, max_norm):
    return clip_grad_norm_([*shared, *own], max_norm).item()
