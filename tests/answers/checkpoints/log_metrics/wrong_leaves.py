# misconception: empty_batch_leaves
# breaks: The accuracy is that of all samples of all ranks so far, on every rank.
# breaks: A batch may be empty.
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    if len(labels) == 0:
        return 0.0, 0.0
    total = counts.clone()
    dist.all_reduce(total)
    right, samples = total.double().unbind(1)
    seen = samples > 0
    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
