# misconception: none
# breaks: each sample goes through the model of one of them
import torch
import torch.distributed as dist


def evaluate(model, dataset):
    rank, world = dist.get_rank(), dist.get_world_size()
    second = range((rank + 1) % world, len(dataset), world) if world > 2 else ()
    counts = torch.zeros(2)
    with torch.no_grad():
        for index in [*range(rank, len(dataset), world), *second]:
            features, label = dataset[index]
            counts += torch.tensor([float(model(features).argmax() == label), 1.0])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()
