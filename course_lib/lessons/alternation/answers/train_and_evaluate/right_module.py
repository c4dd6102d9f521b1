import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def train_and_evaluate(model, optimizer, batches, validation, every):
    losses = []
    for step, (x, y) in enumerate(batches, 1):
#~ counts_from_0 -1 |    for step, (x, y) in enumerate(batches):
#~ stops_early -1 |    for step, (x, y) in enumerate(batches[: len(batches) // every * every], 1):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        if step % every == 0 and dist.get_rank() == 0:
            modes = [(part, part.training) for part in model.module.modules()]
            model.module.eval()
            with torch.no_grad():
                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
            for part, mode in modes:
#~ thawed -1 |            model.module.train()
#~ left_in_eval -1
                part.training = mode
#~ thawed -1
#~ left_in_eval -1
    return losses

#~ counts_from_0: misconception: none
#~ left_in_eval: misconception: left_in_eval_mode
#~ left_in_eval: breaks: Every part of the model is left in the mode that it had.
#~ stops_early: misconception: none
#~ thawed: misconception: norm_thawed
#~ thawed: breaks: The weights are those of a training without evaluations.
#~ thawed: breaks: Every part of the model is left in the mode that it had.
