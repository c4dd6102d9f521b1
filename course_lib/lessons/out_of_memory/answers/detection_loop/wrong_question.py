# misconception: swallowed
# breaks: Memory that runs out in forward or backward ends no process.
def detection_loop(ddp, optimizer, images, loss_of):
    for image in images:
        try:
            optimizer.zero_grad()
            loss_of(ddp, image).backward()
            optimizer.step()
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):
                raise
