import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def train_and_evaluate(model, optimizer, batches, validation, every):
    losses = []
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
#~ trained_alone -1 |        mse_loss(model.module(x), y).backward()
        optimizer.step()
        if step % every == 0:  # all ranks, through the wrapper
#~ left_in_eval_everywhere -1 |        if step % every == 0:
#~ trained_alone -1 |        if step % every == 0 and dist.get_rank() == 0:
#~ wrapper -1 |        if step % every == 0 and dist.get_rank() == 0:
#~ wrapper_with_gradients -1 |        if step % every == 0 and dist.get_rank() == 0:
            modes = {part: part.training for part in model.modules()}
            model.eval()
#~ train_mode -3 |        if step % every == 0 and dist.get_rank() == 0:
            with torch.no_grad():
                loss = mse_loss(model(validation[0]), validation[1])
            dist.broadcast(loss, src=0)
            losses.append(loss.item())
#~ trained_alone -3 |                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
#~ wrapper -3 |                losses.append(mse_loss(model(validation[0]), validation[1]).item())
#~ wrapper_with_gradients -4 |            losses.append(mse_loss(model(validation[0]), validation[1]).item())
            for part, mode in modes.items():
                part.training = mode
#~ left_in_eval_everywhere -5 |                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
#~ train_mode -5 |                losses.append(mse_loss(model.module(validation[0]), validation[1]).item())
    return losses

#~ left_in_eval_everywhere: misconception: left_in_eval_mode
#~ left_in_eval_everywhere: breaks: Every part of the model is left in the mode that it had.
#~ train_mode: misconception: evaluated_in_train_mode
#~ train_mode: breaks: Rank 0's running statistics come from training batches only.
#~ train_mode: breaks: The losses are those of the model in eval mode.
#~ trained_alone: misconception: trained_around_the_wrapper
#~ trained_alone: breaks: The weights are those of a training without evaluations.
#~ wrapper: misconception: wrapper_on_one_rank
#~ wrapper: breaks: Every rank calls the wrapper equally often.
#~ wrapper_with_gradients: misconception: wrapper_on_one_rank
