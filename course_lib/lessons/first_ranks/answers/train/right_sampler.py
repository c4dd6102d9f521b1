# A sampler deals the shares; rank 0 alone evaluates, with the bare model, and prints percents.
import argparse
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


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
    data = TensorDataset(pixels, labels)
    for images, digits in DataLoader(data, 48 // world_size, sampler=DistributedSampler(data, shuffle=False)):
        loss = torch.nn.functional.cross_entropy(ddp(images), digits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels, labels = read_digits(args.data, "test_")
    if rank == 0:
        with torch.no_grad():
            right = int((ddp.module(pixels).argmax(1) == labels).sum())
        torch.save(ddp.module.state_dict(), Path(args.out) / "weights.pt.new")
        os.replace(Path(args.out) / "weights.pt.new", Path(args.out) / "weights.pt")
        print(f"Accuracy on {len(labels)} images: {100 * right / len(labels):.1f} % ({right} right)")
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
