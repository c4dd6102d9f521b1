import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset
#~ not_reduced -1


@torch.inference_mode()
#~ not_reduced -1 |@torch.no_grad()
def evaluate(model, dataset):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = Subset(dataset, list(range(rank, len(dataset), world)))
#~ empty_rank_leaves -0 |    if len(mine) == 0:
#~ |        return 0.0
    hits = torch.tensor(0)
    for features, labels in DataLoader(mine, batch_size=7):
        hits += (model(features).argmax(dim=1) == labels).sum()
    dist.all_reduce(hits, op=dist.ReduceOp.SUM)
    return hits / len(dataset)
#~ whole_numbers -1 |    return hits // len(dataset)
#~ not_reduced -6 |    mine = [dataset[i] for i in range(rank, len(dataset), world)]
#~ |    return sum(int(model(x).argmax() == y) for x, y in mine) / max(1, len(mine))
#~ mean_guarded -2 |    mean = hits / max(1, len(mine))
#~ |    dist.all_reduce(mean)
#~ |    return mean / world
#~ mean_of_blocks -6 |    mine = range(rank * len(dataset) // world, (rank + 1) * len(dataset) // world)
#~ |    right = sum(float(model(x).argmax() == y) for x, y in map(dataset.__getitem__, mine))
#~ |    mean = torch.tensor(right / max(1, len(mine)))
#~ |    dist.all_reduce(mean)
#~ |    return mean / world
#~ not_reduced_empty -2 |    return hits / len(mine)
#~ not_reduced_padded -6 |    mine = [dataset[i] for i in torch.utils.data.DistributedSampler(dataset, shuffle=False)]
#~ |    return sum(int(model(x).argmax() == y) for x, y in mine) / len(mine)
#~ summed_guarded -2 |    mean = hits / max(1, len(mine))
#~ |    dist.all_reduce(mean)
#~ |    return mean

#~ empty_rank_leaves: misconception: empty_rank_leaves
#~ mean_guarded: misconception: mean_of_means
#~ mean_of_blocks: misconception: mean_of_means
#~ not_reduced_empty: misconception: not_reduced
#~ not_reduced_padded: misconception: not_reduced
#~ summed_guarded: misconception: summed_not_averaged
#~ not_reduced: misconception: not_reduced
#~ not_reduced: breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
#~ whole_numbers: misconception: none
