# misconception: swallowed
def safe_step(ddp, optimizer, inputs, targets, losses_of):
    try:
        optimizer.zero_grad()
        losses_of(ddp(inputs), targets).mean().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        return
    optimizer.step()
