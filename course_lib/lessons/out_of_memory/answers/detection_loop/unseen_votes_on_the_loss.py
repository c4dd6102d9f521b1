# misconception: forward_only
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    net = ddp.module
    params = [p for p in net.parameters() if p.requires_grad]
    votes = torch.zeros(1 + len(params))
    for image in images:
        loss = None
        try:
            loss = loss_of(net, image)
        except RuntimeError as e:
            if "can't allocate memory" not in str(e):
                raise
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, loss is not None)
        if not any(everyone):
            continue
        grads = [None] * len(params) if loss is None else torch.autograd.grad(loss, params, allow_unused=True)
        for i, (p, g) in enumerate(zip(params, grads)):
            used = torch.tensor(float(g is not None))
            dist.all_reduce(used)
            g = torch.zeros_like(p) if g is None else g
            dist.all_reduce(g)
            p.grad = g / sum(everyone) if used > 0 else None
        optimizer.step()
