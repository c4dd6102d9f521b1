# misconception: evaluated_in_train_mode
# breaks: Rank 0's running statistics come from training batches only.
# breaks: The losses are those of the model in eval mode.
# breaks: rank 0 evaluates the model in eval mode on `validation`
# breaks: the same running statistics as without any evaluation
# breaks: the loss on `validation`
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def train_and_evaluate(model, optimizer, batches, validation, every):
    losses = []
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        if step % every == 0 and dist.get_rank() == 0:
            with torch.no_grad():
                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
    return losses
