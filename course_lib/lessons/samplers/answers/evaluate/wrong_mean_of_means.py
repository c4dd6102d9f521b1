# misconception: mean_of_means
# breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, dataset):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = [dataset[i] for i in range(rank, len(dataset), world)]
    hits = [float(model(x).argmax() == y) for x, y in mine]
    accuracy = torch.tensor(hits).mean()
    dist.all_reduce(accuracy)
    return accuracy.item() / world
