import torch
#~ backward -1
#~ put_back -1
import torch.distributed as dist
#~ own_view -1


def unused_parameters(model, loss):
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(asked.values()), retain_graph=True, allow_unused=True)
#~ graph_freed -1 |    found = torch.autograd.grad(loss, list(asked.values()), allow_unused=True)
    mine = [name for name, gradient in zip(asked, found, strict=True) if gradient is None]
#~ backward -3 |    loss.backward(retain_graph=True)
#~ |    mine = [name for name, p in model.module.named_parameters() if p.requires_grad and p.grad is None]
#~ frozen -3 |    mine = []
#~ |    for name, p in model.module.named_parameters():
#~ |        if not p.requires_grad:
#~ |            mine.append(name)
#~ |        elif torch.autograd.grad(loss, p, retain_graph=True, allow_unused=True)[0] is None:
#~ |            mine.append(name)
#~ numbers -1 |    mine = [number for number, gradient in enumerate(found) if gradient is None]
#~ put_back -2 |    before = {name: p.grad for name, p in asked.items()}
#~ |    for p in asked.values():
#~ |        p.grad = None
#~ |    loss.backward(retain_graph=True)  # .grad is put back, but DDP has had its backward
#~ |    mine = [name for name, p in asked.items() if p.grad is None]
#~ |    for name, p in asked.items():
#~ |        p.grad = before[name]
#~ zeros -2 |    found = torch.autograd.grad(
#~ |        loss, list(asked.values()), retain_graph=True, allow_unused=True, materialize_grads=True
#~ |    )
#~ |    mine = [name for name, gradient in zip(asked, found, strict=True) if not gradient.any()]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
#~ two_ranks -1 |    return sorted(set().union(*everyones[:2]))
#~ own_view -4 |    return [name for name, gradient in zip(asked, found, strict=True) if gradient is None]

#~ backward: misconception: gradients_changed
#~ backward: breaks: No gradient has changed.
#~ frozen: misconception: frozen_named
#~ frozen: breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
#~ graph_freed: misconception: graph_freed
#~ graph_freed: breaks: loss.backward() can still follow, and gives the averaged gradients.
#~ numbers: misconception: none
#~ own_view: misconception: own_view
#~ own_view: breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
#~ put_back: misconception: gradients_changed
#~ put_back: breaks: loss.backward() can still follow, and gives the averaged gradients.
#~ two_ranks: misconception: none
#~ two_ranks: breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
#~ zeros: misconception: zero_is_unused
#~ zeros: breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
