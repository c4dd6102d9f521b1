# kind: rank_left
# culprits: 0,2
# ranks: 3
# One rank has one metric more, and so makes one all_reduce more.
import torch
import torch.distributed as dist


def report(metrics):
    for name in metrics:
        value = torch.tensor(metrics[name])
        dist.all_reduce(value)


dist.init_process_group("gloo")
metrics = {"loss": 1.0, "accuracy": 0.5}
if dist.get_rank() == 1:
    metrics["debug"] = 3.0
report(metrics)
dist.destroy_process_group()
