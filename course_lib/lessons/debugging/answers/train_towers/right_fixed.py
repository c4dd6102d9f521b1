culprit = 0
cause = "order"
#~ other_cause -1 |cause = "types"


def train_towers(towers, optimizer, batches, chance):
#~ seeded -0 |    chance.seed(0)
    for batch in batches:
        names = ["image", "text"]
#~ one_tower -1
#~ seeded -0 |        chance.shuffle(names)
        optimizer.zero_grad()
        scores = sum(towers[name](batch) for name in names)
        scores.square().mean().backward()
#~ each_alone -2 |        for name in names:
#~ |            towers[name](batch).square().mean().backward()
#~ one_tower -2 |        towers["image"](batch).square().mean().backward()
        optimizer.step()

#~ each_alone: misconception: none
#~ one_tower: misconception: one_tower_left
#~ one_tower: breaks: Both towers have the weights of one process that trains on the batches of all ranks.
#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
#~ seeded: misconception: chance_taken
#~ seeded: breaks: Every rank still has a `chance` of its own.
