import torch
import torch.distributed as dist


# Gathers lists instead of adding tensors.
#~ alone -1
#~ in_place -1
#~ means -1
def log_metrics(counts, scores, labels):
    for score, label in zip(scores, labels):
        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, counts.tolist())
    totals = [[sum(part[c][k] for part in everyones) for k in (0, 1)] for c in range(len(counts))]
    recalls = [right / n for right, n in totals if n > 0]
    return sum(r for r, _ in totals) / sum(n for _, n in totals), sum(recalls) / len(recalls)
#~ alone -5 |    right, samples = counts.double().unbind(1)
#~ |    seen = samples > 0
#~ |    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
#~ in_place -5 |    dist.all_reduce(counts)
#~ |    right, samples = counts.double().unbind(1)
#~ |    seen = samples > 0
#~ |    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
#~ means -5 |    right, samples = counts.double().unbind(1)
#~ |    seen = samples > 0
#~ |    both = torch.stack([right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()])
#~ |    dist.all_reduce(both, op=dist.ReduceOp.AVG)
#~ |    return both[0], both[1]

#~ alone: misconception: not_reduced
#~ alone: breaks: The accuracy is that of all samples of all ranks so far, on every rank.
#~ in_place: misconception: counts_spoilt
#~ in_place: breaks: `counts` holds this rank's own counts, after every step.
#~ means: misconception: mean_of_means
#~ means: breaks: The accuracy is that of all samples of all ranks so far, on every rank.
