# misconception: frozen_named
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    reached = set()
    stack, seen = [loss.grad_fn], set()
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen:
            continue
        seen.add(fn)
        variable = getattr(fn, "variable", None)
        if variable is not None:
            reached.add(id(variable))
        stack.extend(next_fn for next_fn, _ in fn.next_functions)
    here = {name: id(p) not in reached for name, p in model.module.named_parameters()}
    everywhere = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, here)
    return [name for name in here if any(other[name] for other in everywhere)]
