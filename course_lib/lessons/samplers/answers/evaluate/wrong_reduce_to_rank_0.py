# misconception: only_rank_0_knows
# breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, dataset):
    hits = torch.zeros(1)
    for index in range(dist.get_rank(), len(dataset), dist.get_world_size()):
        features, label = dataset[index]
        hits += model(features).argmax() == label
    dist.reduce(hits, dst=0)
    return hits.item() / len(dataset)
