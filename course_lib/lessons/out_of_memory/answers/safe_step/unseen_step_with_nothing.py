# misconception: swallowed
def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    try:
        loss = losses_of(ddp(inputs), targets).mean()
        loss.backward()
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        print("skipped a batch:", len(inputs))
    optimizer.step()
