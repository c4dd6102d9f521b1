# misconceptions: counts_spoilt, absent_as_zero
# breaks: `counts` holds this rank's own counts, after every step.
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    ones = torch.ones_like(labels)
    counts[:, 0].index_add_(0, labels, (scores.argmax(1) == labels).to(torch.int64))
    counts[:, 1].index_add_(0, labels, ones)
    dist.all_reduce(counts)
    right, samples = counts.double().unbind(1)
    return (right.sum() / samples.sum()).item(), (right / samples.clamp(min=1)).mean().item()
