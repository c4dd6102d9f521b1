# kind: different_dtypes
# culprits: -
# ranks: 3
# One rank counts in whole numbers, the others in floats: four bytes each, so nobody complains.
import torch
import torch.distributed as dist


def correct_predictions(rank):
    return torch.tensor([5, 7, 9], dtype=torch.int32) if rank == 2 else torch.tensor([5.0, 7.0, 9.0])


dist.init_process_group("gloo")
correct = correct_predictions(dist.get_rank())
dist.all_reduce(correct)
dist.destroy_process_group()
