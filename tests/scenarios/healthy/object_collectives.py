# kind: none
# ranks: 3
# Configurations and metrics travel as objects of different sizes.
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
config = [{"lr": 0.1, "layers": [4, 8]} if rank == 0 else None]
dist.broadcast_object_list(config, src=0)
metrics = {"rank": rank, "losses": [0.5] * (rank + 1) * 10}
gathered = [None] * dist.get_world_size() if rank == 0 else None
dist.gather_object(metrics, gathered, dst=0)
if rank == 0:
    print(len(gathered), "reports,", config[0]["lr"])
dist.destroy_process_group()
