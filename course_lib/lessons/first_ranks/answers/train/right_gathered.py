# The counts are gathered, not reduced; the accuracy is a tensor with four digits.
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
    for batch in torch.arange(len(pixels)).split(48):
        mine = batch[rank::world_size]
        loss = torch.nn.functional.cross_entropy(ddp(pixels[mine]), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels, labels = read_digits(args.data, "test_")
    mine = torch.arange(len(labels)).tensor_split(world_size)[rank]
    right = (ddp.module(pixels[mine]).argmax(1) == labels[mine]).sum()
    counts = [torch.zeros_like(right) for _ in range(world_size)]
    dist.all_gather(counts, right)
    if rank == world_size - 1:  # any process may tell
        torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt")
        print("test accuracy:", torch.stack(counts).sum() / len(labels))
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
