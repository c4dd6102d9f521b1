# misconception: batch_times_ranks
# breaks: Each image of a batch is in the share of one process.
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


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
    ddp = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    pixels, labels = read_digits(args.data, "")
    own = torch.arange(len(pixels))[rank::world_size]
    for mine in own.split(48):
        loss = torch.nn.functional.cross_entropy(ddp(pixels[mine]), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels, labels = read_digits(args.data, "test_")
    mine = slice(rank, None, world_size)
    right = (ddp.module(pixels[mine]).argmax(1) == labels[mine]).sum()
    dist.all_reduce(right)  # on every rank ...
    if rank == 0:  # ... and then one of them tells
        torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt")
        print(f"accuracy {right.item() / len(labels):.2f}")
    dist.destroy_process_group()


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a file with images, labels, test_images, test_labels")
    parser.add_argument("--out", default=".")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
