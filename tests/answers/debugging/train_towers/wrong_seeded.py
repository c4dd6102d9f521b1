# misconception: chance_taken
# breaks: Every rank still has a `chance` of its own.
# breaks: Each rank has a `chance` of its own, and that stays so
# breaks: what it draws after the training is still its own
culprit = 0
cause = "order"


def train_towers(towers, optimizer, batches, chance):
    chance.seed(0)
    for batch in batches:
        names = ["image", "text"]
        chance.shuffle(names)
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()
