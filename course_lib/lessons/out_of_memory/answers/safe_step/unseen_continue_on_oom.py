# misconception: swallowed
import torch


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    try:
        outputs = ddp(inputs)
        loss = losses_of(outputs, targets).mean()
        loss.backward()
        optimizer.step()
    except (torch.OutOfMemoryError, RuntimeError) as oom:
        if "allocate" in str(oom):
            optimizer.zero_grad(set_to_none=True)
        else:
            raise oom
