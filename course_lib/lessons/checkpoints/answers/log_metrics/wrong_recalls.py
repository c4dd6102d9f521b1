# misconception: mean_of_recalls
# breaks: The mean recall is that of all samples of all ranks so far, on every rank.
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    right, samples = counts.double().unbind(1)
    seen = samples > 0
    recall = (right[seen] / samples[seen]).mean() / dist.get_world_size()
    dist.all_reduce(recall)
    total = counts.sum(0).double()
    dist.all_reduce(total)
    return total[0] / total[1], recall
