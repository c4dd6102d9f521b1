# misconception: mean_of_means
# breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
# With fewer samples than ranks somebody divides by zero: the idea is wrong before that.
import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, dataset):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = [dataset[i] for i in range(rank, len(dataset), world)]
    accuracy = torch.tensor(sum(float(model(x).argmax() == y) for x, y in mine) / len(mine))
    dist.all_reduce(accuracy, op=dist.ReduceOp.AVG)
    return accuracy.item()
