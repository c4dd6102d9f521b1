# misconception: only_rank_0_knows
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    total = counts.clone()
    dist.reduce(total, dst=0, op=dist.ReduceOp.SUM)
    hits, seen = total.double().T
    return float(hits.sum() / seen.sum()), float((hits / seen)[seen > 0].mean())
