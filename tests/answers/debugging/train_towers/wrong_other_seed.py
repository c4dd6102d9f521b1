# misconception: still_own_order
# breaks: all ranks call them in the same order
import random


culprit = 0
cause = "order"


def train_towers(towers, optimizer, batches, chance):
    random.seed(0)
    for batch in batches:
        names = ["image", "text"]
        chance.shuffle(names)
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()
