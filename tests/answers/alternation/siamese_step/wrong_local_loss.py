# misconception: local_loss
# breaks: Every rank returns the mean loss over the pairs of all ranks.
# breaks: return the loss over the pairs of *all* ranks
# breaks: the same number on every rank
def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
