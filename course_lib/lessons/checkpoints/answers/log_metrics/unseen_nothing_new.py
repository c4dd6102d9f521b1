# misconception: empty_batch_leaves
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    if not labels.numel():
        right, n = counts.double().unbind(1)
        return right.sum() / n.sum(), (right[n > 0] / n[n > 0]).mean()
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    total = counts.clone()
    dist.all_reduce(total)
    right, n = total.double().unbind(1)
    return right.sum() / n.sum(), (right[n > 0] / n[n > 0]).mean()
