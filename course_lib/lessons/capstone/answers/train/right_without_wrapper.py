"""Without a wrapper: each process sums gradients, and one all-reduce at the end of a step averages them."""

import argparse
import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn


class Reader(nn.Module):
    """From 64 pixels to ten scores."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 32)
        self.norm = nn.BatchNorm1d(32)
        self.scores = nn.Linear(32, 10)

    def forward(self, images):
        """One row of scores for each image."""
        return self.scores(self.norm(self.hidden(images)).relu())


class Mender(nn.Module):
    """From the upper half of an image to the lower one."""

    def __init__(self):
        super().__init__()
        self.strokes = nn.Linear(32, 24)
        self.pixels = nn.Linear(24, 32)

    def forward(self, upper):
        """The lower half of each image."""
        return self.pixels(self.strokes(upper).relu())


def read_images(path):
    """The training images with their labels and the test images with theirs; without a file, the course's digits."""
    if path is None:
        from course_lib.data import load_digits

        images, labels = load_digits()
        parts = (images[:1536], labels[:1536]), (images[1536:], labels[1536:])
    else:
        with np.load(path) as file:
            parts = [(file[f"{part}_images"], file[f"{part}_labels"]) for part in ("train", "test")]
    return [
        (torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long())
        for images, labels in parts
    ]


class Job:
    """One process of the training."""

    def __init__(self, args):
        dist.init_process_group("gloo", timeout=timedelta(seconds=args.patience))
        self.args = args
        self.me, self.all = dist.get_rank(), dist.get_world_size()
        (images, labels), self.test = read_images(args.data)
        shown = images.any(dim=1)
        self.train = images[shown], labels[shown]

        torch.manual_seed(args.seed)
        self.reader, self.mender = Reader(), Mender()
        self.weights = [*self.reader.parameters(), *self.mender.parameters()]
        self.optimizer = torch.optim.SGD(self.weights, lr=args.lr, momentum=0.9)
        self.history = []
        self.file = Path(args.out) / "checkpoint.pt"
        self.file.parent.mkdir(parents=True, exist_ok=True)

    def resume(self):
        """Go on where the last run has ended."""
        if not self.file.exists():
            return
        state = torch.load(self.file, map_location="cpu")
        self.reader.load_state_dict(state["reader"])
        self.mender.load_state_dict(state["mender"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.history = state["history"]

    def save(self):
        """Write the checkpoint."""
        state = {
            "epoch": len(self.history),
            "reader": self.reader.state_dict(),
            "mender": self.mender.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
        }
        new = self.file.with_suffix(".new")
        torch.save(state, new)
        os.replace(new, self.file)

    def share(self, number, order):
        """This process's part of so many images, a micro-batch at a time."""
        mine = order[: number // self.all * self.all][self.me :: self.all]
        return mine.split(self.args.micro_batch)

    def train_epoch(self, epoch):
        """Take the steps of an epoch."""
        self.reader.train()
        self.optimizer.zero_grad()
        images, labels = self.train
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(self.args.seed + epoch))
        for number, chosen in enumerate(self.share(len(images), order), 1):
            (sum(self.losses(images[chosen], labels[chosen])) / self.args.accumulate / self.all).backward()
            if number % self.args.accumulate == 0:
                for p in self.weights:
                    dist.all_reduce(p.grad)
                self.optimizer.step()
                self.optimizer.zero_grad()

    def losses(self, images, labels):
        """The three losses of a micro-batch."""
        moved = images.view(-1, 8, 8).roll(1, dims=2).flatten(1)
        cross_entropy = nn.functional.cross_entropy
        drawn = self.mender(images[:, :32])
        return (
            cross_entropy(self.reader(images), labels),
            cross_entropy(self.reader(moved), labels),
            nn.functional.mse_loss(drawn, images[:, 32:]),
        )

    @torch.no_grad()
    def accuracy(self):
        """The share of the test images that is read correctly."""
        reader = self.reader.eval()
        for buffer in reader.buffers():
            dist.broadcast(buffer, src=0)
        images, labels = self.test
        mine = slice(self.me, None, self.all)
        right = (reader(images[mine]).argmax(1) == labels[mine]).sum()
        dist.all_reduce(right)
        return right.item() / len(images)

    def run(self):
        """Train, and tell how long it took."""
        began = time.monotonic()
        self.resume()
        for epoch in range(len(self.history), self.args.epochs):
            self.train_epoch(epoch)
            self.history.append({"epoch": epoch + 1, "accuracy": self.accuracy()})
            if self.me == 0:
                print(f"epoch {epoch + 1}: accuracy {self.history[-1]['accuracy']:.3f}", flush=True)
                self.save()
        longest = torch.tensor(time.monotonic() - began)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        if self.me == 0:
            print(f"done: {longest.item():.0f} s on the slowest process")


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Read digits and mend them.")
    parser.add_argument("--data", help="a file with train_images, train_labels, test_images, test_labels")
    parser.add_argument("--out", default=".", help="the folder of checkpoint.pt")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--micro-batch", type=int, default=8, help="images of one process")
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches in a step")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--patience", type=float, default=600, help="seconds that others are waited for")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    Job(arguments()).run()
    dist.destroy_process_group()
