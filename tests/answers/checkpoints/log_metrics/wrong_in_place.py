# misconception: counts_spoilt
# breaks: `counts` holds this rank's own counts, after every step.
# breaks: Only this rank's samples belong there.
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    dist.all_reduce(counts)
    right, samples = counts.double().unbind(1)
    seen = samples > 0
    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
