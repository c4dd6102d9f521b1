import torch.distributed as dist

culprit = 0
#~ witness -1 |culprit = 2
cause = "order"
#~ groups -1 |cause = "groups"


def train_towers(towers, optimizer, batches, chance):
    for batch in batches:
        names = ["image", "text"]
        chance.shuffle(names)
        dist.broadcast_object_list(names, src=0)  # one order for all: rank 0's
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()

#~ groups: misconception: groups_blamed
#~ groups: breaks: cause says why.
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
