# misconception: this_batch_only
# breaks: The accuracy is that of all samples of all ranks so far, on every rank.
# breaks: Count this batch into `counts`, in place.
# breaks: of all samples that any rank has seen so far
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    batch = torch.zeros_like(counts)
    for score, label in zip(scores, labels):
        batch[label] += torch.tensor([int(score.argmax() == label), 1])
    counts += batch
    dist.all_reduce(batch)
    right, samples = batch.double().unbind(1)
    seen = samples > 0
    return right.sum() / samples.sum(), (right[seen] / samples[seen]).mean()
