# Without the wrapper: gradients of the bare model, one all-reduce for each, with zeros from a rank that has none.
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    parameters = [p for p in ddp.module.parameters() if p.requires_grad]
    zeros = [torch.zeros_like(p) for p in parameters]
    good = torch.zeros(())
    for image in images:
        fits = True
        try:
            gradients = torch.autograd.grad(loss_of(ddp.module, image), parameters)
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            fits = False
#~ not_averaged -0 |        if not fits:
#~ |            continue
        dist.all_reduce(good.fill_(fits))
        for p, zero, own in zip(parameters, zeros, gradients if fits else zeros, strict=True):
            total = zero.copy_(own) if fits else zero.zero_()
            dist.all_reduce(total)
            p.grad = total / good
        if good > 0:
#~ missed_step -1 |        if fits:
            optimizer.step()

#~ missed_step: misconception: none
#~ missed_step: breaks: All ranks have the same weights at the end, bit by bit.
#~ not_averaged: misconception: swallowed
