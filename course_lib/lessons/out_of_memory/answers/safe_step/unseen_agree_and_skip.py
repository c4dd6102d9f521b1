# misconception: forward_only
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    loss = None
    try:
        loss = losses_of(ddp(inputs), targets).mean()
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
    ok = torch.tensor([0.0 if loss is None else 1.0])
    dist.all_reduce(ok, op=dist.ReduceOp.MIN)
    if ok.item() == 1.0:
        loss.backward()
        optimizer.step()
