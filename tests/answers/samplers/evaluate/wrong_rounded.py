# misconception: none
import torch
import torch.distributed as dist


def evaluate(model, dataset):
    counts = torch.zeros(2)
    with torch.no_grad():
        for index in range(dist.get_rank(), len(dataset), dist.get_world_size()):
            features, label = dataset[index]
            counts += torch.tensor([float(model(features).argmax() == label), 1.0])
    dist.all_reduce(counts)
    return round((counts[0] / counts[1]).item(), 4)
