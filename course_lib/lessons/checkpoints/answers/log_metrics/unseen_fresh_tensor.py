# misconception: this_batch_only
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    now = torch.zeros(4, 2, dtype=torch.int64)
    for guess, label in zip(scores.argmax(1), labels):
        now[label] += torch.tensor([int(guess == label), 1])
    counts.add_(now)
    dist.all_reduce(now)
    hits, seen = now.double().T
    return float(hits.sum() / seen.sum()), float((hits / seen)[seen > 0].mean())
