# Walks the graph as DDP does, and one all_reduce of flags instead of objects; names with module. before them.
#~ min -1
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    seen, queue = set(), [loss.grad_fn]
    while queue:
        node = queue.pop()
        if node is not None and node not in seen:
            seen.add(node)
            queue += [following for following, _ in node.next_functions]
    reached = {id(node.variable) for node in seen if hasattr(node, "variable")}
    asked = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    missing = torch.tensor([float(id(p) not in reached) for _, p in asked])
    dist.all_reduce(missing, op=dist.ReduceOp.MAX)
#~ min -1 |    dist.all_reduce(missing, op=dist.ReduceOp.MIN)
    return [name for (name, _), flag in zip(asked, missing, strict=True) if flag]

#~ min: misconception: unused_by_all
#~ min: breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
