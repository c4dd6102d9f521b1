# misconception: only_rank_0_knows
# breaks: Every rank returns two numbers.
# breaks: the same on every rank
# breaks: Return two numbers
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    total = counts.clone()
    dist.reduce(total, dst=0)
    if dist.get_rank() != 0:
        return None
    right, samples = total.double().unbind(1)
    seen = samples > 0
    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
