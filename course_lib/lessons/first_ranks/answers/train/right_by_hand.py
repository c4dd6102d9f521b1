import argparse
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist


def read_digits(path, which):
    """Pixels and labels, `which` being "" or "test_"."""
    with np.load(path) as data:
        pixels = torch.from_numpy(data[which + "images"]).float().flatten(1) / 16
        return pixels, torch.from_numpy(data[which + "labels"]).long()


def main(args):
    """Train, evaluate together, save."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)  # the same weights on all ranks
#~ never_seeded -1
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    pixels, labels = read_digits(args.data, "")
    for batch in torch.arange(len(pixels)).split(48):
        mine = batch.chunk(world_size)[rank]
        loss = torch.nn.functional.cross_entropy(model(pixels[mine]), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()

    pixels, labels = read_digits(args.data, "test_")
    mine = slice(rank, None, world_size)
    right = (model(pixels[mine]).argmax(1) == labels[mine]).sum()
    dist.all_reduce(right)  # on every rank ...
    if rank == 0:  # ... and then one of them tells
        torch.save(model.state_dict(), Path(args.out) / "weights.pt")
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

#~ never_seeded: misconception: none
