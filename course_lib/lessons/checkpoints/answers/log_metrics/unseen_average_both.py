# misconception: mean_of_means
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    hits, seen = counts[:, 0].double(), counts[:, 1].double()
    recalls = [h / s for h, s in zip(hits.tolist(), seen.tolist()) if s]
    mine = (hits.sum().item() / seen.sum().item(), sum(recalls) / len(recalls))
    all_of_them = [None] * dist.get_world_size()
    dist.all_gather_object(all_of_them, mine)
    return tuple(sum(one[k] for one in all_of_them) / len(all_of_them) for k in (0, 1))
