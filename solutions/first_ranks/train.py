# %%task first_ranks.train
"""Train a linear model on handwritten digits, on any number of processes.

    torchrun --standalone --nproc-per-node=4 train.py --data digits.npz --out .

- A batch is 48 images. Each of them is in the share of one process, and the shares are equally large.
- The weights after the training are those that one process finds on whole batches, up to rounding. Its first
  weights are those of `torch.nn.Linear(64, 10)` after `torch.manual_seed(seed)`.
- One process writes weights.pt into the folder OUT, the state dict of the bare model, and prints one line with the
  accuracy on the test images.
- All processes end by themselves, with exit code 0.
"""

import argparse
import gc
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def read_digits(path, which, device):
    """Pixels and labels, `which` being "" or "test_"."""
    with np.load(path) as data:
        pixels = torch.from_numpy(data[which + "images"]).float().flatten(1) / 16
        return pixels.to(device), torch.from_numpy(data[which + "labels"]).long().to(device)


def main(args, device):
    """Train, evaluate together, save."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed + rank)  # rank 0's weights count: the wrapper copies them
    ddp = DistributedDataParallel(torch.nn.Linear(64, 10).to(device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    pixels, labels = read_digits(args.data, "", device)
    for batch in torch.arange(len(pixels)).split(48):
        mine = batch[rank::world_size]
        loss = torch.nn.functional.cross_entropy(ddp(pixels[mine]), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels, labels = read_digits(args.data, "test_", device)
    mine = slice(rank, None, world_size)
    right = (ddp.module(pixels[mine]).argmax(1) == labels[mine]).sum()
    dist.all_reduce(right)  # on every rank ...
    if rank == 0:  # ... and then one of them tells
        torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt")
        print(f"accuracy {right.item() / len(labels):.2f}")


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a file with images, labels, test_images, test_labels")
    parser.add_argument("--out", default=".")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])  # one for each process
    device = f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu"
    dist.init_process_group("nccl" if gpu else "gloo")
    main(arguments(), device)
    gc.collect()  # first the wrapped model goes,
    dist.destroy_process_group()  # then the group
