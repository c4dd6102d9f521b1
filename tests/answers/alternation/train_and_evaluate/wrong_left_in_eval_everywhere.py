# misconception: left_in_eval_mode
# breaks: The model is left in train mode.
# breaks: The training must not notice: the same weights
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def train_and_evaluate(model, optimizer, batches, validation, every):
    losses = []
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        if step % every == 0:
            model.eval()
            with torch.no_grad():
                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
    return losses
