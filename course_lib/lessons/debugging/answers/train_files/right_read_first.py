import torch.distributed as dist

culprit = [1]
cause = "skipped"


def train_files(ddp, optimizer, files, read):
    batches = {}
    for file in files:
        try:
            batches[file] = read(file)
        except OSError:
            print(file, "cannot be read")
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, set(batches))
    for file in files:
        if all(file in readable for readable in everyones):
            optimizer.zero_grad()
            ddp(batches[file]).square().mean().backward()
            optimizer.step()
