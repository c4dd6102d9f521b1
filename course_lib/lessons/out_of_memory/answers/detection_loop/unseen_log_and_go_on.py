# misconception: swallowed
def detection_loop(ddp, optimizer, images, loss_of):
    skipped = 0
    for i, image in enumerate(images):
        optimizer.zero_grad(set_to_none=True)
        try:
            loss = loss_of(ddp, image)
            loss.backward()
        except RuntimeError as e:
            if "memory" not in str(e):
                raise
            skipped += 1
            continue
        optimizer.step()
    return skipped
