# kind: rank_left
# culprits: 0
# ranks: 2
# An empty batch is left out with `continue`, and with it the all_reduce of the loss.
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    batches = [[1.0], [2.0], [], [4.0]] if rank == 0 else [[1.0], [2.0], [3.0], [4.0]]
    for batch in batches:
        if not batch:
            continue
        loss = torch.tensor(batch)
        dist.all_reduce(loss)
    dist.destroy_process_group()


main()
