# misconception: forward_only
# breaks: Memory that runs out in forward or backward ends no process.
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    for image in images:
        loss = None
        try:
            loss = loss_of(ddp, image)
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):
                raise
        fine = torch.tensor(float(loss is not None))
        dist.all_reduce(fine, dist.ReduceOp.MIN)
        if fine:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
