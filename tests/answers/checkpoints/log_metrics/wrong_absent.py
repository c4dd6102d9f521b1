# misconception: absent_as_zero
# breaks: The mean recall is that of all samples of all ranks so far, on every rank.
# breaks: for each class of which some rank has seen a sample
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    total = counts.clone()
    dist.all_reduce(total)
    right, samples = total.double().unbind(1)
    return right.sum() / samples.sum(), (right / samples.clamp(min=1)).mean()
