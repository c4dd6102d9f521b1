# misconception: other_cause
# breaks: cause says why.
culprit = 0
cause = "types"


def train_towers(towers, optimizer, batches, chance):
    for batch in batches:
        names = ["image", "text"]
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
        optimizer.step()
