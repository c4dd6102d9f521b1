# kind: skipped_collective
# culprits: 1
# ranks: 3
# Metrics are reduced in a loop over a dictionary, and one rank's batch has no positives: it has one metric less.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def averaged(metrics):
    for name in metrics:
        dist.all_reduce(metrics[name])
        metrics[name] /= dist.get_world_size()
    return metrics


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(8):
        x = torch.randn(16, 5)
        wanted = (x[:, 0] > (9 if (step, rank) == (5, 1) else 0)).float()
        scores = model(x)[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics = {"loss": loss.detach(), "accuracy": ((scores > 0) == (wanted > 0)).float().mean()}
        if wanted.any():
#~ mended -1 |        metrics["recall"] = torch.tensor(0.0)
#~ |        if wanted.any():
            metrics["recall"] = (scores[wanted > 0] > 0).float().mean()
        averaged(metrics)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
