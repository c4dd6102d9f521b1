# misconception: trained_around_the_wrapper
# breaks: The weights are those of a training without evaluations.
# breaks: Train a wrapped model that has a BatchNorm
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def train_and_evaluate(model, optimizer, batches, validation, every):
    losses = []
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        mse_loss(model.module(x), y).backward()
        optimizer.step()
        if step % every == 0 and dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
            model.train()
    return losses
