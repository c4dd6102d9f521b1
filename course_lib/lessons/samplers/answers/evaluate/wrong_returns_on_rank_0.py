# misconception: only_rank_0_knows
# breaks: Every rank returns a number.
import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, dataset):
    hits = torch.zeros(1)
    for index in range(dist.get_rank(), len(dataset), dist.get_world_size()):
        features, label = dataset[index]
        hits += model(features).argmax() == label
    dist.all_reduce(hits)
    if dist.get_rank() == 0:
        return hits.item() / len(dataset)
