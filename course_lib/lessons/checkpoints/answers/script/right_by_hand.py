"""Another repair: no wrapper; gradients are averaged by hand before each step, shares cut by hand."""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


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
        train = Digits(file["train_images"], file["train_labels"])
        return train, Digits(file["test_images"], file["test_labels"])


def my_share(digits, epoch, seed):
    """Indices of this rank: the visible images, shuffled anew in each epoch, cut to equal length."""
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(1000 * seed + epoch))
    visible = order[digits.images[order].any(1)]
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    each = len(visible) // world_size
    return visible[rank * each : (rank + 1) * each]


def moved(images):
    """The same images, one pixel further to the right."""
    return torch.roll(images.view(-1, 8, 8), 1, dims=2).flatten(1)


def average_gradients(parameters, number):
    """The mean over ranks and micro-batches, in one all-reduce."""
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat)
    flat /= number * dist.get_world_size()
    for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(part.view_as(p))


def train_epoch(classifier, completer, optimizer, digits, share, args):
    """One pass over this rank's share: backward after each pass, averaged before each step."""
    classifier.train()
    parameters = [*classifier.parameters(), *completer.parameters()]
    optimizer.zero_grad(set_to_none=True)
    pending = 0
    for chosen in share.split(args.micro_batch):
        images, labels = digits.images[chosen], digits.labels[chosen]
        F.cross_entropy(classifier(images), labels).backward()
        F.cross_entropy(classifier(moved(images)), labels).backward()
        completer(images).backward()
        pending += 1
        if pending == args.accumulate:
            average_gradients(parameters, pending)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            pending = 0


@torch.no_grad()
def evaluate(classifier, digits):
    """Rank 0 evaluates, the others are told."""
    accuracy = torch.zeros(())
    if dist.get_rank() == 0:
        classifier.eval()
        accuracy = (classifier(digits.images).argmax(1) == digits.labels).float().mean()
    dist.broadcast(accuracy, src=0)
    return accuracy.item()


def main(args):
    """Set up, resume, train, evaluate, save."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    train, test = read_digits(args.data)

    torch.manual_seed(args.seed)
    classifier, completer = Classifier(), Completer()
    parameters = [*classifier.parameters(), *completer.parameters()]
    for p in parameters:
        dist.broadcast(p.data, src=0)
    optimizer = torch.optim.SGD(parameters, lr=args.lr, momentum=0.9)

    first_epoch, history = 0, []
    checkpoint = Path(args.out) / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        classifier.load_state_dict(state["classifier"])
        completer.load_state_dict(state["completer"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch, history = state["epoch"], state["history"]

    for epoch in range(first_epoch, args.epochs):
        train_epoch(classifier, completer, optimizer, train, my_share(train, epoch, args.seed), args)
        accuracy = evaluate(classifier, test)
        history.append({"epoch": epoch + 1, "accuracy": accuracy})
        if rank == 0:
            print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}")
            state = {
                "epoch": epoch + 1,
                "classifier": classifier.state_dict(),
                "completer": completer.state_dict(),
                "optimizer": optimizer.state_dict(),
                "history": history,
            }
            with open(f"{checkpoint}.new", "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            Path(f"{checkpoint}.new").rename(checkpoint)
        dist.barrier()

    if rank == 0:
        norm = sum(p.detach().square().sum() for p in parameters)
        print(f"done: squared norm of all weights {norm.item():.1f}")
    dist.destroy_process_group()


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
    sys.stdout.flush()
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        # Under torchrun: end without the interpreter's shutdown, which gloo's threads could abort.
        os._exit(0)
