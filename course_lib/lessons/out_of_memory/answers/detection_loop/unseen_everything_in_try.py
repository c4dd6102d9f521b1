# misconception: step_in_try
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    net = ddp.module
    params = [p for p in net.parameters() if p.requires_grad]
    spare = [torch.zeros_like(p) for p in params]
    flags = torch.zeros(1 + len(params))
    for image in images:
        grads, good = [None] * len(params), 0.0
        try:
            grads = torch.autograd.grad(loss_of(net, image), params, allow_unused=True)
            good = 1.0
        except RuntimeError as e:
            if "can't allocate memory" not in str(e):
                raise
        flags[0] = good
        for i, g in enumerate(grads):
            flags[i + 1] = float(g is not None)
        dist.all_reduce(flags)
        for i, (p, g, z) in enumerate(zip(params, grads, spare)):
            z.zero_()
            if g is not None:
                z.copy_(g)
            dist.all_reduce(z)
            p.grad = z / flags[0] if flags[i + 1] > 0 else None
        try:
            if flags[0] > 0:
                optimizer.step()
        except RuntimeError as e:
            if "can't allocate memory" not in str(e):
                raise
            print("no memory for the step")
