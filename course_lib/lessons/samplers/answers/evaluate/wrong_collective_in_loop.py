# misconception: collective_per_batch
import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, dataset):
    right = 0
    for index in range(dist.get_rank(), len(dataset), dist.get_world_size()):
        features, label = dataset[index]
        hit = (model(features).argmax() == label).float()
        dist.all_reduce(hit)
        right += hit.item()
    return right / len(dataset)
