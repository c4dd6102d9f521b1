import random
#~ other_seed -0 |

culprit = 0
cause = "order"


def train_towers(towers, optimizer, batches, chance):
    shared = random.Random(0)
#~ other_seed -1 |    random.seed(0)
    for batch in batches:
        names = ["image", "text"]
        shared.shuffle(names)
#~ other_seed -1 |        chance.shuffle(names)
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()

#~ other_seed: misconception: still_own_order
