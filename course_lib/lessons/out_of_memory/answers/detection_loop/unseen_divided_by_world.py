# misconception: zeros_counted
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    net = ddp.module
    world = dist.get_world_size()
    params = [p for p in net.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in params]
    for image in images:
        optimizer.zero_grad()
        ok = True
        try:
            loss_of(net, image).backward()
        except RuntimeError as e:
            if "can't allocate memory" not in str(e):
                raise
            ok = False
        status = [None] * world
        dist.all_gather_object(status, (ok, [ok and p.grad is not None for p in params]))
        good = sum(fine for fine, _ in status)
        if good == 0:
            continue
        for i, (p, s) in enumerate(zip(params, sums)):
            s.zero_()
            if ok and p.grad is not None:
                s += p.grad
            dist.all_reduce(s)
            p.grad = s / world if any(used[i] for _, used in status) else None
        optimizer.step()
