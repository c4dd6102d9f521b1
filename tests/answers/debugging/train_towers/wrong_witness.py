# misconception: witness
# breaks: culprit is the rank that does something else than the others.
import torch.distributed as dist

culprit = 2
cause = "order"


def train_towers(towers, optimizer, batches, chance):
    for batch in batches:
        names = ["image", "text"]
        chance.shuffle(names)
        dist.broadcast_object_list(names, src=0)  # one order for all: rank 0's
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()
