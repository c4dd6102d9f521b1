# misconception: counts_spoilt
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    dist.all_reduce(counts, op=dist.ReduceOp.SUM)
    hits, seen = counts[:, 0].float(), counts[:, 1].float()
    there = seen.nonzero().flatten()
    return float(hits.sum() / seen.sum()), float((hits[there] / seen[there]).mean())
