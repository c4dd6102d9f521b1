# misconception: absent_as_zero
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    total = counts.double()
    dist.all_reduce(total)
    accuracy = total[:, 0].sum() / total[:, 1].sum()
    recall = sum(r.item() / n.item() if n else 0.0 for r, n in total) / 4
    return accuracy.item(), recall
