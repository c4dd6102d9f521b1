# misconception: not_corrected
# breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
# breaks: Make every gradient the mean over the *good* ranks
# breaks: Correct all gradients
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    return count.item()
