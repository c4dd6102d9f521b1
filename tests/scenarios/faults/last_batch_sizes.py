# kind: different_sizes
# culprits: -
# ranks: 3
# Predictions are summed over ranks, and one rank's last batch is larger than the others'.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
predictions = torch.ones(3000 if rank == 1 else 10)
dist.all_reduce(predictions)
#~ mended -1 |total = torch.cat([predictions, torch.zeros(3000 - len(predictions))])
#~ |dist.all_reduce(total)
dist.barrier()
dist.destroy_process_group()
