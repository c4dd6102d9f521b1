import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    ones = torch.ones_like(labels)
    counts[:, 0].index_add_(0, labels, (scores.argmax(1) == labels).to(torch.int64))
    counts[:, 1].index_add_(0, labels, ones)
#~ absent -3 |    for score, label in zip(scores, labels):
#~ |        counts[label] += torch.tensor([int(score.argmax() == label), 1])
#~ leaves -3 |    for score, label in zip(scores, labels):
#~ |        counts[label] += torch.tensor([int(score.argmax() == label), 1])
#~ |    if len(labels) == 0:
#~ |        return 0.0, 0.0
#~ reduce -3 |    for score, label in zip(scores, labels):
#~ |        counts[label] += torch.tensor([int(score.argmax() == label), 1])
    total = counts.clone()
    dist.all_reduce(total)
#~ reduce -1 |    dist.reduce(total, dst=0)
#~ |    if dist.get_rank() != 0:
#~ |        return None
    right, samples = total.double().unbind(1)
#~ last_batch -6 |    batch = torch.zeros_like(counts)
#~ |    for score, label in zip(scores, labels):
#~ |        batch[label] += torch.tensor([int(score.argmax() == label), 1])
#~ |    counts += batch
#~ |    dist.all_reduce(batch)
#~ |    right, samples = batch.double().unbind(1)
    seen = samples > 0
    return (right.sum() / samples.sum()).item(), (right[seen] / samples[seen]).mean().item()
#~ absent -2 |    return right.sum() / samples.sum(), (right / samples.clamp(min=1)).mean()
#~ in_place_and_clamped -5 |    dist.all_reduce(counts)
#~ |    right, samples = counts.double().unbind(1)
#~ |    return (right.sum() / samples.sum()).item(), (right / samples.clamp(min=1)).mean().item()
#~ last_batch -1 |    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
#~ leaves -1 |    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
#~ reduce -1 |    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()

#~ absent: misconception: absent_as_zero
#~ absent: breaks: The mean recall is that of all samples of all ranks so far, on every rank.
#~ in_place_and_clamped: misconceptions: counts_spoilt, absent_as_zero
#~ in_place_and_clamped: breaks: `counts` holds this rank's own counts, after every step.
#~ last_batch: misconception: this_batch_only
#~ last_batch: breaks: The accuracy is that of all samples of all ranks so far, on every rank.
#~ leaves: misconception: empty_batch_leaves
#~ leaves: breaks: The accuracy is that of all samples of all ranks so far, on every rank.
#~ reduce: misconception: only_rank_0_knows
#~ reduce: breaks: Every rank returns two numbers.
