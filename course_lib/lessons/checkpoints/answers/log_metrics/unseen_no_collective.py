# misconception: not_reduced
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    hits, seen = counts.double().T
    recalls = (hits / seen)[seen > 0]
    return float(hits.sum() / seen.sum()), float(recalls.mean())
