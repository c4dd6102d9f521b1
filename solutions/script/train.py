# %%task checkpoints.script
"""Train two models on handwritten digits, on any number of processes.

    torchrun --standalone --nproc-per-node 2 train.py --epochs 3

A Classifier reads a digit; a Completer draws the lower half of a digit of which it sees the upper half.

What this script promises, however many processes and machines it is started on:

- An epoch goes through all training images that are not blank, in an order that is new in every epoch. Each
  image is in the share of one process (some may come twice, or be left out, to make the shares equal).
- The loss of a micro-batch is the Classifier's cross entropy on its images, plus the same on the images moved
  to the right by one pixel, plus the Completer's mean squared error. The images go through the Classifier in
  two passes, first as they are.
- A step of the optimizer follows the mean gradient over all processes and `--accumulate` micro-batches: the
  weights after it are those that one process would have found that takes the same micro-batches one after the
  other. Micro-batches left over at the end of an epoch take part in no step.
- OUT is a folder that all machines see. After each epoch, one process writes OUT/checkpoint.pt: {"epoch": epochs
  done, "classifier", "completer": state dicts of the bare models, "history": a list of {"epoch", "accuracy"},
  ...}. The accuracy is that of the model in the file, over all test images (none is blank), each counted once.
- Killed at any moment and started again with the same OUT, it ends as if nothing had happened.
- When something fails on one process, no process goes on with wrong numbers, and the run does not end as if all
  were well.
- A process may be slow for a minute; the others wait for it.
"""

import argparse
import contextlib
import gc
import os
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler


class Classifier(nn.Module):
    """From 64 pixels to ten scores."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images):
        """One row of scores for each image."""
        return self.layers(images)


class Completer(nn.Module):
    """From the upper half of a digit to the lower half."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 32))

    def forward(self, images):
        """How far the drawn lower halves are from the real ones: the mean squared error."""
        upper, lower = images[:, :32], images[:, 32:]
        return F.mse_loss(self.layers(upper), lower)


class Digits:
    """Images as rows of 64 numbers from 0 to 1, and their labels."""

    def __init__(self, images, labels):
        self.images = torch.from_numpy(images).float().flatten(1) / 16
        self.labels = torch.from_numpy(labels).long()

    def __len__(self):
        return len(self.labels)


def read_digits(path):
    """The training images and the test images of a file; without one, the course's own digits."""
    if path is None:
        from course_lib.data import load_digits

        images, labels = load_digits()
        return Digits(images[:1536], labels[:1536]), Digits(images[1536:], labels[1536:])
    with np.load(path) as file:
        seen = file["train_images"].any(axis=(1, 2))
        train = Digits(file["train_images"][seen], file["train_labels"][seen])
        return train, Digits(file["test_images"], file["test_labels"])


def micro_batches(digits, indices, size):
    """The images and labels of these indices, `size` at a time."""
    indices = list(indices)
    for start in range(0, len(indices), size):
        chosen = indices[start : start + size]
        yield digits.images[chosen], digits.labels[chosen]


def moved(images):
    """The same images, one pixel further to the right."""
    return torch.roll(images.view(-1, 8, 8), 1, dims=2).flatten(1)


def train_epoch(classifier, completer, optimizer, digits, sampler, args):
    """One pass over this process's share."""
    classifier.train()
    optimizer.zero_grad()
    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
        incomplete = (number + 1) % args.accumulate != 0
        with contextlib.ExitStack() as stack:
            if incomplete:
                stack.enter_context(classifier.no_sync())
                stack.enter_context(completer.no_sync())
            loss = F.cross_entropy(classifier(images), labels)
            loss = loss + F.cross_entropy(classifier(moved(images)), labels)
            loss = loss + completer(images)
            (loss / args.accumulate).backward()
        if not incomplete:
            optimizer.step()
            optimizer.zero_grad()


@torch.no_grad()
def evaluate(classifier, digits, args):
    """The share of test images that the classifier reads right."""
    for buffer in classifier.buffers():
        dist.broadcast(buffer, src=0)
    classifier.eval()
    right = torch.zeros(())
    mine = range(dist.get_rank(), len(digits), dist.get_world_size())
    for images, labels in micro_batches(digits, mine, args.micro_batch):
        right += (classifier(images).argmax(1) == labels).sum()
    dist.all_reduce(right)
    return right.item() / len(digits)


def main(args):
    """Set up, resume, train, evaluate, save."""
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    train, test = read_digits(args.data)
    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)

    torch.manual_seed(args.seed)
    classifier = DistributedDataParallel(Classifier())
    completer = DistributedDataParallel(Completer())
    parameters = [*classifier.parameters(), *completer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=args.lr, momentum=0.9)

    first_epoch, history = 0, []
    checkpoint = Path(args.out) / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location="cpu")
        classifier.module.load_state_dict(state["classifier"])
        completer.module.load_state_dict(state["completer"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch, history = state["epoch"], state["history"]

    for epoch in range(first_epoch, args.epochs):
        sampler.set_epoch(epoch)
        train_epoch(classifier, completer, optimizer, train, sampler, args)
        accuracy = evaluate(classifier.module, test, args)
        history.append({"epoch": epoch + 1, "accuracy": accuracy})
        if rank == 0:
            print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}")
            state = {
                "epoch": epoch + 1,
                "classifier": classifier.module.state_dict(),
                "completer": completer.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "history": history,
            }
            unfinished = checkpoint.with_suffix(".unfinished")
            torch.save(state, unfinished)
            os.replace(unfinished, checkpoint)
        dist.barrier()

    norm = sum(p.detach().square().sum() for p in parameters)
    dist.all_reduce(norm, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(f"done: squared norm of all weights {norm.item():.1f}")


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Train two models on handwritten digits.")
    parser.add_argument("--data", help="a file with train_images, train_labels, test_images, test_labels")
    parser.add_argument("--out", default=".", help="the folder of checkpoint.pt")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument(
        "--accumulate", type=int, default=2, help="micro-batches to one step of the optimizer"
    )
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
    gc.collect()  # first the wrapped models go,
    dist.destroy_process_group()  # then the group
