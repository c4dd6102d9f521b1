# misconception: chance_taken
# breaks: Every rank still has a `chance` of its own.
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
