# misconception: rank_0_alone
# breaks: The ranks share the work: each sample goes through the model of one rank.
import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(model, dataset):
    accuracy = torch.zeros(1)
    if dist.get_rank() == 0:
        hits = [bool(model(x).argmax() == y) for x, y in (dataset[i] for i in range(len(dataset)))]
        accuracy[0] = sum(hits) / len(hits)
    dist.broadcast(accuracy, src=0)
    return accuracy.item()
