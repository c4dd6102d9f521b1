# Without the wrapper: gradients of the bare model, one all-reduce for each, with zeros from a rank that has none.
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    parameters = [p for p in ddp.module.parameters() if p.requires_grad]
    zeros = [torch.zeros_like(p) for p in parameters]
    counts = torch.zeros(1 + len(parameters))
    for image in images:
        counts.zero_()
        fits, own = True, [None] * len(parameters)
        try:
            own = torch.autograd.grad(loss_of(ddp.module, image), parameters, allow_unused=True)
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            fits = False
#~ not_averaged -0 |        if not fits:
#~ |            continue
        dist.all_reduce(counts.copy_(torch.tensor([fits, *(g is not None for g in own)])))
        for p, zero, gradient, users in zip(parameters, zeros, own, counts[1:], strict=True):
            total = zero.zero_() if gradient is None else zero.copy_(gradient)
            dist.all_reduce(total)
            p.grad = total / counts[0] if users else None
        if counts[0] > 0:
#~ missed_step -1 |        if fits:
            optimizer.step()

#~ missed_step: misconception: none
#~ missed_step: breaks: All ranks have the same weights at the end, bit by bit.
#~ not_averaged: misconception: swallowed
