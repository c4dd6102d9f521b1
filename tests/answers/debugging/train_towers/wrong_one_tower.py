# misconception: one_tower_left
# breaks: Both towers have the weights of one process that trains on the batches of all ranks.
# breaks: Both towers are trained in every step.
# breaks: Train two towers together
culprit = 0
cause = "order"


def train_towers(towers, optimizer, batches, chance):
    for batch in batches:
        optimizer.zero_grad()
        towers["image"](batch).square().mean().backward()
        optimizer.step()
