import torch
import torch.distributed as dist
#~ drop_last -0 |from torch.utils.data import DataLoader, DistributedSampler
#~ padding -0 |from torch.utils.data import DataLoader, DistributedSampler
#~ padding_shuffled -0 |from torch.utils.data import DataLoader, DistributedSampler


#~ drop_last -0 |@torch.no_grad()
#~ padding -0 |@torch.no_grad()
#~ padding_shuffled -0 |@torch.no_grad()
def evaluate(model, dataset):
#~ drop_last -0 |    sampler = DistributedSampler(dataset, shuffle=False, drop_last=True)
#~ twice -0 |    rank, world = dist.get_rank(), dist.get_world_size()
#~ |    second = range((rank + 1) % world, len(dataset), world) if world > 2 else ()
    counts = torch.zeros(2)
    with torch.no_grad():
        for index in range(dist.get_rank(), len(dataset), dist.get_world_size()):
#~ twice -1 |        for index in [*range(rank, len(dataset), world), *second]:
            features, label = dataset[index]
            counts += torch.tensor([float(model(features).argmax() == label), 1.0])
#~ drop_last -4 |    for features, labels in DataLoader(dataset, batch_size=8, sampler=sampler):
#~ |        counts += torch.tensor([(model(features).argmax(1) == labels).sum(), len(labels)])
#~ error_rate -1 |            counts += torch.tensor([float(model(features).argmax() != label), 1.0])
#~ padding -4 |    for features, labels in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=False)):
#~ |        counts[0] += (model(features).argmax(1) == labels).sum()
#~ |        counts[1] += len(labels)
#~ padding_shuffled -4 |    for features, labels in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset)):
#~ |        counts[0] += (model(features).argmax(1) == labels).sum()
#~ |        counts[1] += len(labels)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()
#~ counts -1 |    return counts.tolist()
#~ padding -1 |    return float(counts[0] / counts[1])
#~ padding_shuffled -1 |    return float(counts[0] / counts[1])
#~ rounded -1 |    return round((counts[0] / counts[1]).item(), 4)

#~ counts: misconception: none
#~ drop_last: misconception: samples_dropped
#~ drop_last: breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
#~ error_rate: misconception: none
#~ padding: misconception: padding_counted
#~ padding: breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
#~ padding_shuffled: misconception: padding_counted
#~ padding_shuffled: breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
#~ rounded: misconception: none
#~ twice: misconception: none
