import random

culprit = 0
cause = "order"


def train_towers(towers, optimizer, batches, chance):
    shared = random.Random(0)
    for batch in batches:
        names = ["image", "text"]
        shared.shuffle(names)
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()
