# misconception: mean_of_means
# breaks: The accuracy is that of all samples of all ranks so far, on every rank.
# breaks: over the samples of **all ranks in all steps so far**
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    right, samples = counts.double().unbind(1)
    seen = samples > 0
    both = torch.stack([right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()])
    dist.all_reduce(both, op=dist.ReduceOp.AVG)
    return both[0], both[1]
