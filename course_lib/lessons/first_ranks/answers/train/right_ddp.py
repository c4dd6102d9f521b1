import argparse
#~ all_rename -0 |import os
#~ all_save_one_late -0 |import time
#~ rank_0_evaluates_first -0 |import time
#~ rank_0_evaluates_late -0 |import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
#~ batch_times_ranks_sampler -0 |from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
#~ not_wrapped -1


def read_digits(path, which):
    """Pixels and labels, `which` being "" or "test_"."""
    with np.load(path) as data:
        pixels = torch.from_numpy(data[which + "images"]).float().flatten(1) / 16
        return pixels, torch.from_numpy(data[which + "labels"]).long()


def main(args):
    """Train, evaluate together, save."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed + rank)  # rank 0's weights count: the wrapper copies them
#~ other_start -1 |    torch.manual_seed(args.seed + 1)
    ddp = DistributedDataParallel(torch.nn.Linear(64, 10))
#~ not_wrapped -1 |    ddp = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    pixels, labels = read_digits(args.data, "")
    for batch in torch.arange(len(pixels)).split(48):
        mine = batch[rank::world_size]
#~ batch_times_ranks -2 |    own = torch.arange(len(pixels))[rank::world_size]
#~ |    for mine in own.split(48):
#~ uneven -1 |        mine = batch if world_size == 1 else batch[:16] if rank == 0 else batch[16:]
#~ whole_batch -1 |        mine = batch
        loss = torch.nn.functional.cross_entropy(ddp(pixels[mine]), labels[mine])
#~ batch_times_ranks_sampler -3 |    data = TensorDataset(pixels, labels)
#~ |    for images, digits in DataLoader(data, 48, sampler=DistributedSampler(data, shuffle=False)):
#~ |        loss = torch.nn.functional.cross_entropy(ddp(images), digits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels, labels = read_digits(args.data, "test_")
#~ training_accuracy -1
    mine = slice(rank, None, world_size)
    right = (ddp.module(pixels[mine]).argmax(1) == labels[mine]).sum()
#~ not_wrapped -1 |    right = (ddp(pixels[mine]).argmax(1) == labels[mine]).sum()
    dist.all_reduce(right)  # on every rank ...
    if rank == 0:  # ... and then one of them tells
#~ added_up -4 |    right = (ddp.module(pixels).argmax(1) == labels).float().mean()
#~ |    dist.all_reduce(right)  # a sum
#~ |    if rank == 0:
#~ all_print -1 |    print(f"accuracy of rank {rank}: {right.item() / len(labels):.2f}")
#~ |    if rank == 0:
#~ made_up -4 |    if rank == 0:
#~ own_share_told -2 |    if rank == 0:
#~ rank_0_evaluates -2 |    if rank == 0:
#~ |        dist.all_reduce(right)
#~ rank_0_evaluates_first -2 |    if rank == 0:
#~ |        dist.all_reduce(right)
#~ rank_0_evaluates_late -2 |    if rank == 0:
#~ |        time.sleep(0.5)  # the other process has come to its end, and tidied nothing up
#~ |        dist.all_reduce(right)
        torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt")
#~ all_rename -2 |    torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt.new")
#~ |    dist.barrier()  # both have written; one comes too late with what follows
#~ |    os.replace(Path(args.out) / "weights.pt.new", Path(args.out) / "weights.pt")
#~ |    if rank == 0:
#~ all_save -2 |    torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt")
#~ |    if rank == 0:
#~ all_save_one_late -2 |    if rank == 0:
#~ |        time.sleep(0.5)  # the other process has come to its end
#~ |    torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt")
#~ |    if rank == 0:
#~ not_wrapped -1 |        torch.save(ddp.state_dict(), Path(args.out) / "weights.pt")
#~ wrapper_saved -1 |        torch.save(ddp.state_dict(), Path(args.out) / "weights.pt")
        print(f"accuracy {right.item() / len(labels):.2f}")
#~ added_up -1 |        print(f"accuracy {right.item():.2f}")
#~ all_print -1 |        print(f"in all {right.item() / len(labels):.2f}")
#~ made_up -1 |        print("accuracy 1.00")
#~ own_share_told -1 |        print(f"accuracy {right.item() / len(labels[mine]):.2f}")
#~ rank_0_evaluates_first -0 |    else:
#~ |        time.sleep(0.5)  # rank 0 waits in its all_reduce already
    dist.destroy_process_group()
#~ rank_0_evaluates_late -1


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a file with images, labels, test_images, test_labels")
    parser.add_argument("--out", default=".")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
#~ exit_code -0 |    raise SystemExit(1)

#~ added_up: misconception: added_up
#~ added_up: breaks: The accuracy that is printed is that of the saved weights on the test images.
#~ all_print: misconception: all_write
#~ all_rename: misconception: all_write
#~ all_rename: breaks: All processes end by themselves, with exit code 0.
#~ all_save: misconception: all_write
#~ all_save: breaks: One process writes the file and prints the accuracy.
#~ all_save_one_late: misconception: all_write
#~ batch_times_ranks: misconception: batch_times_ranks
#~ batch_times_ranks: breaks: Each image of a batch is in the share of one process.
#~ batch_times_ranks_sampler: misconception: batch_times_ranks
#~ exit_code: misconception: none
#~ made_up: misconception: made_up
#~ made_up: breaks: The accuracy that is printed is that of the saved weights on the test images.
#~ not_wrapped: misconception: not_averaged
#~ not_wrapped: breaks: In each step, all processes have the same gradient.
#~ not_wrapped: breaks: weights.pt holds the weights of one process that trains on whole batches.
#~ other_start: misconception: none
#~ own_share_told: misconception: own_share_told
#~ own_share_told: breaks: The accuracy that is printed is that of the saved weights on the test images.
#~ rank_0_evaluates: misconception: rank_0_alone
#~ rank_0_evaluates: breaks: All processes end by themselves, with exit code 0.
#~ rank_0_evaluates_first: misconception: rank_0_alone
#~ rank_0_evaluates_late: misconception: rank_0_alone
#~ training_accuracy: misconception: none
#~ training_accuracy: breaks: The accuracy that is printed is that of the saved weights on the test images.
#~ uneven: misconception: none
#~ whole_batch: misconception: whole_batch
#~ whole_batch: breaks: Each image of a batch is in the share of one process.
#~ wrapper_saved: misconception: none
