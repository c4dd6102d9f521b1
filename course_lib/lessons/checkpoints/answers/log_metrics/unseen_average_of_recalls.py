# misconception: mean_of_recalls
import torch
import torch.distributed as dist


def log_metrics(counts, scores, labels):
    guesses = scores.argmax(-1)
    for guess, label in zip(guesses.tolist(), labels.tolist()):
        counts[label, 1] += 1
        counts[label, 0] += guess == label
    everyone = [torch.zeros_like(counts) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, counts)
    total = torch.stack(everyone).sum((0, 1))
    recalls = []
    for one in everyone:
        own = [float(r) / float(n) for r, n in one if n > 0]
        recalls.append(sum(own) / len(own))
    return float(total[0]) / float(total[1]), sum(recalls) / len(recalls)
