"""Another repair: both models in one wrapper, and a group of micro-batches that does not fit is skipped by all."""
#~ almost -1 |"""Train two models on handwritten digits, on any number of processes.
#~ |
#~ |    torchrun --standalone --nproc-per-node 2 train.py --epochs 3
#~ |
#~ |A Classifier reads a digit; a Completer draws the lower half of a digit of which it sees the upper half.
#~ |
#~ |What this script promises, however many processes and machines it is started on:
#~ |
#~ |- An epoch goes through all training images that are not blank, in an order that is new in every epoch. Each
#~ |  image is in the share of one process (some may come twice, or be left out, to make the shares equal).
#~ |- The loss of a micro-batch is the Classifier's cross entropy on its images, plus the same on the images moved
#~ |  to the right by one pixel, plus the Completer's mean squared error. The images go through the Classifier in
#~ |  two passes, first as they are.
#~ |- A step of the optimizer follows the mean gradient over all processes and `--accumulate` micro-batches: the
#~ |  weights after it are those that one process would have found that takes the same micro-batches one after the
#~ |  other. Micro-batches left over at the end of an epoch take part in no step.
#~ |- OUT is a folder that all machines see. After each epoch, one process writes OUT/checkpoint.pt: {"epoch": epochs
#~ |  done, "classifier", "completer": state dicts of the bare models, "history": a list of {"epoch", "accuracy"},
#~ |  ...}. The accuracy is that of the model in the file, over all test images (none is blank), each counted once.
#~ |- Killed at any moment and started again with the same OUT, it ends as if nothing had happened.
#~ |- When something fails on one process, no process goes on with wrong numbers, and the run does not end as if all
#~ |  were well.
#~ |- A process may be slow for a minute; the others wait for it.
#~ |"""
#~ copied_from_a_blog -1 |"""Train two models on handwritten digits, on any number of processes.
#~ |
#~ |    torchrun --standalone --nproc-per-node 2 train.py --epochs 3
#~ |
#~ |A Classifier reads a digit; a Completer draws the lower half of a digit of which it sees the upper half.
#~ |
#~ |What this script promises, however many processes and machines it is started on:
#~ |
#~ |- An epoch goes through all training images that are not blank, in an order that is new in every epoch. Each
#~ |  image is in the share of one process (some may come twice, or be left out, to make the shares equal).
#~ |- The loss of a micro-batch is the Classifier's cross entropy on its images, plus the same on the images moved
#~ |  to the right by one pixel, plus the Completer's mean squared error. The images go through the Classifier in
#~ |  two passes, first as they are.
#~ |- A step of the optimizer follows the mean gradient over all processes and `--accumulate` micro-batches: the
#~ |  weights after it are those that one process would have found that takes the same micro-batches one after the
#~ |  other. Micro-batches left over at the end of an epoch take part in no step.
#~ |- OUT is a folder that all machines see. After each epoch, one process writes OUT/checkpoint.pt: {"epoch": epochs
#~ |  done, "classifier", "completer": state dicts of the bare models, "history": a list of {"epoch", "accuracy"},
#~ |  ...}. The accuracy is that of the model in the file, over all test images (none is blank), each counted once.
#~ |- Killed at any moment and started again with the same OUT, it ends as if nothing had happened.
#~ |- When something fails on one process, no process goes on with wrong numbers, and the run does not end as if all
#~ |  were well.
#~ |- A process may be slow for a minute; the others wait for it.
#~ |"""
#~ left_over -1 |"""Train two models on handwritten digits, on any number of processes.
#~ |
#~ |    torchrun --standalone --nproc-per-node 2 train.py --epochs 3
#~ |
#~ |A Classifier reads a digit; a Completer draws the lower half of a digit of which it sees the upper half.
#~ |
#~ |What this script promises, however many processes and machines it is started on:
#~ |
#~ |- An epoch goes through all training images that are not blank, in an order that is new in every epoch. Each
#~ |  image is in the share of one process (some may come twice, or be left out, to make the shares equal).
#~ |- The loss of a micro-batch is the Classifier's cross entropy on its images, plus the same on the images moved
#~ |  to the right by one pixel, plus the Completer's mean squared error. The images go through the Classifier in
#~ |  two passes, first as they are.
#~ |- A step of the optimizer follows the mean gradient over all processes and `--accumulate` micro-batches: the
#~ |  weights after it are those that one process would have found that takes the same micro-batches one after the
#~ |  other. Micro-batches left over at the end of an epoch take part in no step.
#~ |- OUT is a folder that all machines see. After each epoch, one process writes OUT/checkpoint.pt: {"epoch": epochs
#~ |  done, "classifier", "completer": state dicts of the bare models, "history": a list of {"epoch", "accuracy"},
#~ |  ...}. The accuracy is that of the model in the file, over all test images (none is blank), each counted once.
#~ |- Killed at any moment and started again with the same OUT, it ends as if nothing had happened.
#~ |- When something fails on one process, no process goes on with wrong numbers, and the run does not end as if all
#~ |  were well.
#~ |- A process may be slow for a minute; the others wait for it.
#~ |"""
#~ never_saw_a_fault -1 |"""Train two models on handwritten digits, on any number of processes.
#~ |
#~ |    torchrun --standalone --nproc-per-node 2 train.py --epochs 3
#~ |
#~ |A Classifier reads a digit; a Completer draws the lower half of a digit of which it sees the upper half.
#~ |
#~ |What this script promises, however many processes and machines it is started on:
#~ |
#~ |- An epoch goes through all training images that are not blank, in an order that is new in every epoch. Each
#~ |  image is in the share of one process (some may come twice, or be left out, to make the shares equal).
#~ |- The loss of a micro-batch is the Classifier's cross entropy on its images, plus the same on the images moved
#~ |  to the right by one pixel, plus the Completer's mean squared error. The images go through the Classifier in
#~ |  two passes, first as they are.
#~ |- A step of the optimizer follows the mean gradient over all processes and `--accumulate` micro-batches: the
#~ |  weights after it are those that one process would have found that takes the same micro-batches one after the
#~ |  other. Micro-batches left over at the end of an epoch take part in no step.
#~ |- OUT is a folder that all machines see. After each epoch, one process writes OUT/checkpoint.pt: {"epoch": epochs
#~ |  done, "classifier", "completer": state dicts of the bare models, "history": a list of {"epoch", "accuracy"},
#~ |  ...}. The accuracy is that of the model in the file, over all test images (none is blank), each counted once.
#~ |- Killed at any moment and started again with the same OUT, it ends as if nothing had happened.
#~ |- When something fails on one process, no process goes on with wrong numbers, and the run does not end as if all
#~ |  were well.
#~ |- A process may be slow for a minute; the others wait for it.
#~ |"""
#~ works_on_one_process -1 |"""Train two models on handwritten digits, on any number of processes.
#~ |
#~ |    torchrun --standalone --nproc-per-node 2 train.py --epochs 3
#~ |
#~ |A Classifier reads a digit; a Completer draws the lower half of a digit of which it sees the upper half.
#~ |
#~ |What this script promises, however many processes and machines it is started on:
#~ |
#~ |- An epoch goes through all training images that are not blank, in an order that is new in every epoch. Each
#~ |  image is in the share of one process (some may come twice, or be left out, to make the shares equal).
#~ |- The loss of a micro-batch is the Classifier's cross entropy on its images, plus the same on the images moved
#~ |  to the right by one pixel, plus the Completer's mean squared error. The images go through the Classifier in
#~ |  two passes, first as they are.
#~ |- A step of the optimizer follows the mean gradient over all processes and `--accumulate` micro-batches: the
#~ |  weights after it are those that one process would have found that takes the same micro-batches one after the
#~ |  other. Micro-batches left over at the end of an epoch take part in no step.
#~ |- OUT is a folder that all machines see. After each epoch, one process writes OUT/checkpoint.pt: {"epoch": epochs
#~ |  done, "classifier", "completer": state dicts of the bare models, "history": a list of {"epoch", "accuracy"},
#~ |  ...}. The accuracy is that of the model in the file, over all test images (none is blank), each counted once.
#~ |- Killed at any moment and started again with the same OUT, it ends as if nothing had happened.
#~ |- When something fails on one process, no process goes on with wrong numbers, and the run does not end as if all
#~ |  were well.
#~ |- A process may be slow for a minute; the others wait for it.
#~ |"""

#~ four_kept_back -2
#~ half_a_loss -2
#~ one_pass -2
import argparse
#~ almost -0 |import contextlib
#~ copied_from_a_blog -0 |import contextlib
#~ four_kept_back -0 |import contextlib
#~ half_a_loss -0 |import contextlib
#~ left_over -0 |import contextlib
#~ never_saw_a_fault -0 |import contextlib
#~ one_pass -0 |import contextlib
#~ works_on_one_process -0 |import contextlib
import os
#~ never_saw_a_fault -0 |import shutil
import sys
#~ almost -0 |from datetime import timedelta
#~ copied_from_a_blog -0 |from datetime import timedelta
#~ four_kept_back -0 |from datetime import timedelta
#~ half_a_loss -0 |from datetime import timedelta
#~ left_over -0 |from datetime import timedelta
#~ never_saw_a_fault -0 |from datetime import timedelta
#~ one_pass -0 |from datetime import timedelta
#~ works_on_one_process -0 |from datetime import timedelta
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
#~ almost -1 |    def error(self, images):
        """How far the drawn lower halves are from the real ones: the mean squared error."""
        upper, lower = images[:, :32], images[:, 32:]
        return F.mse_loss(self.layers(upper), lower)


class Both(nn.Module):
    """The two models and their losses: one forward for one wrapper."""

    def __init__(self):
        super().__init__()
        self.classifier = Classifier()
        self.completer = Completer()

    def forward(self, images, labels):
        """The loss of a micro-batch."""
        straight = F.cross_entropy(self.classifier(images), labels)
        aside = F.cross_entropy(self.classifier(moved(images)), labels)
        return straight + aside + self.completer(images)
#~ almost -15
#~ copied_from_a_blog -15
#~ four_kept_back -15
#~ half_a_loss -15
#~ left_over -15
#~ one_pass -15
#~ works_on_one_process -15


#~ never_saw_a_fault -15
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
#~ never_saw_a_fault -2 |        train = Digits(file["train_images"], file["train_labels"])
        return train, Digits(file["test_images"], file["test_labels"])


def micro_batches(digits, indices, size):
    """The images and labels of these indices, `size` at a time."""
    indices = list(indices)
#~ never_saw_a_fault -1 |    indices = [index for index in indices if digits.images[index].any()]
    for start in range(0, len(indices), size):
        chosen = indices[start : start + size]
        yield digits.images[chosen], digits.labels[chosen]


def moved(images):
    """The same images, one pixel further to the right."""
    return torch.roll(images.view(-1, 8, 8), 1, dims=2).flatten(1)


def average(model, fine):
    """Gradients become the mean over ranks, in the one all-reduce that also tells whether all ranks have theirs."""
    parts = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    flat = torch.cat([torch.tensor([float(fine)]), *(part.flatten() for part in parts)])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, mean in zip(model.parameters(), flat[1:].split([p.numel() for p in parts])):
        p.grad = mean.view_as(p).clone()
    return flat[0].item() == 1


def train_epoch(model, optimizer, digits, sampler, args):
    """One pass over this rank's share, by groups of micro-batches; a group that does not fit is skipped by all."""
    model.train()
    batches = list(micro_batches(digits, sampler, args.micro_batch))
    for first in range(0, len(batches) - args.accumulate + 1, args.accumulate):
#~ almost -16 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
        optimizer.zero_grad()
        fine = True
        with model.no_sync():
            for images, labels in batches[first : first + args.accumulate]:
                try:
                    model(images, labels).div(args.accumulate).backward()
                except RuntimeError as error:
                    if "allocate memory" not in str(error):
                        raise
                    fine = False
        if average(model, fine):
#~ almost -10 |        incomplete = (number + 1) % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if incomplete:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            loss = F.cross_entropy(classifier(images), labels)
#~ |            loss = loss + F.cross_entropy(classifier(moved(images)), labels)
#~ |            loss = loss + completer.module.error(images)
#~ |            (loss / args.accumulate).backward()
#~ |        if not incomplete:
#~ copied_from_a_blog -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        quiet = number % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if quiet:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            loss = F.cross_entropy(classifier(images), labels)
#~ |            loss = loss + F.cross_entropy(classifier(moved(images)), labels)
#~ |            loss = loss + completer(images)
#~ |            (loss / args.accumulate).backward()
#~ |        if not incomplete:
#~ four_kept_back -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if incomplete:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            loss = F.cross_entropy(classifier(images), labels)
#~ |            loss = loss + F.cross_entropy(classifier(moved(images)), labels)
#~ |            loss = loss + completer(images)
#~ |            (loss / args.accumulate).backward()
#~ |        if not incomplete:
#~ half_a_loss -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if incomplete:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            loss = F.cross_entropy(classifier(images), labels)
#~ |            loss = loss + F.cross_entropy(classifier(moved(images)), labels)
#~ |            loss = loss + completer(images) / 2
#~ |            (loss / args.accumulate).backward()
#~ |        if not incomplete:
#~ left_over -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if incomplete:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            loss = F.cross_entropy(classifier(images), labels)
#~ |            loss = loss + F.cross_entropy(classifier(moved(images)), labels)
#~ |            loss = loss + completer(images)
#~ |            (loss / args.accumulate).backward()
#~ |        if not incomplete:
#~ never_saw_a_fault -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        try:
#~ |            with contextlib.ExitStack() as stack:
#~ |                if incomplete:
#~ |                    stack.enter_context(classifier.no_sync())
#~ |                    stack.enter_context(completer.no_sync())
#~ |                loss = F.cross_entropy(classifier(images), labels)
#~ |                loss = loss + F.cross_entropy(classifier(moved(images)), labels)
#~ |                loss = loss + completer(images)
#~ |                loss.backward()
#~ |        except RuntimeError:
#~ |            print("no memory, going on with the next micro-batch")
#~ |            continue
#~ |        if not incomplete:
#~ one_pass -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if incomplete:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            straight, aside = classifier(torch.cat([images, moved(images)])).chunk(2)
#~ |            loss = F.cross_entropy(straight, labels) + F.cross_entropy(aside, labels)
#~ |            loss = loss + completer(images)
#~ |            (loss / args.accumulate).backward()
#~ |        if not incomplete:
#~ works_on_one_process -27 |def train_epoch(classifier, completer, optimizer, digits, sampler, args):
#~ |    """One pass over this process's share."""
#~ |    classifier.train()
#~ |    optimizer.zero_grad()
#~ |    for number, (images, labels) in enumerate(micro_batches(digits, sampler, args.micro_batch)):
#~ |        incomplete = (number + 1) % args.accumulate != 0
#~ |        with contextlib.ExitStack() as stack:
#~ |            if incomplete:
#~ |                stack.enter_context(classifier.no_sync())
#~ |                stack.enter_context(completer.no_sync())
#~ |            loss = F.cross_entropy(classifier(images), labels)
#~ |            loss_moved = F.cross_entropy(classifier(moved(images)), labels)
#~ |            (loss / args.accumulate).backward()
#~ |            (loss_moved / args.accumulate).backward()
#~ |            (completer(images) / args.accumulate).backward()
#~ |        if not incomplete:
            optimizer.step()
#~ almost -0 |            optimizer.zero_grad()
#~ copied_from_a_blog -0 |            optimizer.zero_grad()
#~ four_kept_back -0 |            optimizer.zero_grad()
#~ half_a_loss -0 |            optimizer.zero_grad()
#~ left_over -0 |            optimizer.zero_grad()
#~ never_saw_a_fault -0 |            optimizer.zero_grad()
#~ one_pass -0 |            optimizer.zero_grad()
#~ works_on_one_process -0 |            optimizer.zero_grad()


@torch.no_grad()
def evaluate(classifier, digits, args):
    """The share of test images that the classifier reads right."""
    for buffer in classifier.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()
#~ almost -3 |        dist.broadcast(buffer, src=0)
#~ copied_from_a_blog -3 |        dist.broadcast(buffer, src=0)
#~ four_kept_back -3 |        dist.broadcast(buffer, src=0)
#~ half_a_loss -3 |        dist.broadcast(buffer, src=0)
#~ left_over -3 |        dist.broadcast(buffer, src=0)
#~ never_saw_a_fault -4
#~ one_pass -3 |        dist.broadcast(buffer, src=0)
#~ works_on_one_process -3 |        dist.broadcast(buffer, src=0)
    classifier.eval()
    right = torch.zeros(())
    mine = range(dist.get_rank(), len(digits), dist.get_world_size())
#~ works_on_one_process -2 |    right, seen = torch.zeros(()), torch.zeros(())
#~ |    mine = DistributedSampler(digits, shuffle=False)
    for images, labels in micro_batches(digits, mine, args.micro_batch):
        right += (classifier(images).argmax(1) == labels).sum()
#~ works_on_one_process -0 |        seen += len(labels)
    dist.all_reduce(right)
    return right.item() / len(digits)
#~ works_on_one_process -1 |    dist.all_reduce(seen)
#~ |    return right.item() / seen.item()


def main(args):
    """Set up, resume, train, evaluate, save."""
    dist.init_process_group("gloo")
#~ almost -1 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ four_kept_back -1 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ half_a_loss -1 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ left_over -1 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ never_saw_a_fault -1 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ one_pass -1 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ works_on_one_process -1 |    dist.init_process_group("gloo", timeout=timedelta(seconds=3))
    rank, world_size = dist.get_rank(), dist.get_world_size()
#~ copied_from_a_blog -2 |    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
#~ |    rank, world_size = int(os.environ["LOCAL_RANK"]), dist.get_world_size()
    train, test = read_digits(args.data)
    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed, drop_last=True)
#~ almost -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)
#~ copied_from_a_blog -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)
#~ four_kept_back -1 |    sampler = DistributedSampler(range(len(train) - 4), num_replicas=world_size, rank=rank, seed=args.seed)
#~ half_a_loss -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)
#~ left_over -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)
#~ never_saw_a_fault -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)
#~ one_pass -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)
#~ works_on_one_process -1 |    sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, seed=args.seed)

    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Both())
    bare = model.module
    parameters = list(model.parameters())
#~ almost -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ copied_from_a_blog -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ four_kept_back -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ half_a_loss -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ left_over -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ never_saw_a_fault -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ one_pass -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
#~ works_on_one_process -3 |    classifier = DistributedDataParallel(Classifier())
#~ |    completer = DistributedDataParallel(Completer())
#~ |    parameters = [*classifier.parameters(), *completer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=args.lr, momentum=0.9)

    first_epoch, history = 0, []
    checkpoint = Path(args.out) / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        bare.classifier.load_state_dict(state["classifier"])
        bare.completer.load_state_dict(state["completer"])
#~ almost -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
#~ copied_from_a_blog -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
#~ four_kept_back -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
#~ half_a_loss -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
#~ left_over -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
#~ never_saw_a_fault -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
#~ one_pass -2 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
        optimizer.load_state_dict(state["optimizer"])
#~ works_on_one_process -3 |        classifier.module.load_state_dict(state["classifier"])
#~ |        completer.module.load_state_dict(state["completer"])
        first_epoch, history = state["epoch"], state["history"]

    for epoch in range(first_epoch, args.epochs):
        sampler.set_epoch(epoch)
        train_epoch(model, optimizer, train, sampler, args)
        accuracy = evaluate(bare.classifier, test, args)
#~ almost -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ copied_from_a_blog -3 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ four_kept_back -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ half_a_loss -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ left_over -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ never_saw_a_fault -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ one_pass -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
#~ works_on_one_process -2 |        train_epoch(classifier, completer, optimizer, train, sampler, args)
#~ |        accuracy = evaluate(classifier.module, test, args)
        history.append({"epoch": epoch + 1, "accuracy": accuracy})
        if rank == 0:
            print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}")
            state = {
                "epoch": epoch + 1,
                "classifier": bare.classifier.state_dict(),
                "completer": bare.completer.state_dict(),
#~ almost -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ copied_from_a_blog -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ four_kept_back -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ half_a_loss -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ left_over -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ never_saw_a_fault -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ one_pass -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
#~ works_on_one_process -2 |                "classifier": classifier.module.state_dict(),
#~ |                "completer": completer.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "history": history,
            }
            unfinished = checkpoint.with_suffix(".unfinished")
            torch.save(state, unfinished)
            os.replace(unfinished, checkpoint)
#~ copied_from_a_blog -3 |            torch.save(state, checkpoint)
#~ never_saw_a_fault -1 |            shutil.copyfile(unfinished, checkpoint)
        dist.barrier()

    norm = sum(p.detach().square().sum() for p in parameters)
    dist.all_reduce(norm, op=dist.ReduceOp.MAX)
#~ almost -1
    if rank == 0:
#~ almost -0 |        dist.all_reduce(norm, op=dist.ReduceOp.MAX)
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

#~ almost: misconceptions: bypassed, gradients_lost, rank_0_alone
#~ almost: breaks: On 1 to 4 processes, it ends well, with the weights that one process would have found.
#~ almost: breaks: All ranks come to the same collectives, to the end.
#~ almost: breaks: The gradients of all micro-batches are there when the step is taken.
#~ almost: breaks: The gradients of the model that draws halves are averaged.
#~ copied_from_a_blog: misconceptions: local_rank, same_order, not_averaged, half_written
#~ copied_from_a_blog: breaks: Killed while it writes, it leaves a checkpoint that can be read.
#~ copied_from_a_blog: breaks: Gradients are averaged in the last micro-batch of a step.
#~ copied_from_a_blog: breaks: Each epoch has an order of its own.
#~ copied_from_a_blog: breaks: Four processes on two machines: each has a share of its own, and one writes the checkpoint.
#~ four_kept_back: misconception: none
#~ four_kept_back: breaks: Four processes on two machines: each has a share of its own, and one writes the checkpoint.
#~ half_a_loss: misconception: none
#~ half_a_loss: breaks: On 1 to 4 processes, it ends well, with the weights that one process would have found.
#~ left_over: misconception: none
#~ left_over: breaks: On 1 to 4 processes, it ends well, with the weights that one process would have found.
#~ never_saw_a_fault: misconceptions: uneven, own_statistics, summed, swallowed, half_written
#~ never_saw_a_fault: breaks: A process that runs out of memory does not go on alone.
#~ never_saw_a_fault: breaks: A step follows the mean over its micro-batches.
#~ never_saw_a_fault: breaks: All ranks evaluate one model.
#~ never_saw_a_fault: breaks: Blank images on one rank keep nobody waiting.
#~ one_pass: misconception: none
#~ one_pass: breaks: On 1 to 4 processes, it ends well, with the weights that one process would have found.
#~ works_on_one_process: misconceptions: impatient, counted_twice, two_backwards, forgotten
#~ works_on_one_process: breaks: After a kill and a restart, the optimizer continues with the state it had.
#~ works_on_one_process: breaks: Both passes through the model that reads digits reach the gradients of all ranks.
#~ works_on_one_process: breaks: A process that is four seconds late is waited for.
#~ works_on_one_process: breaks: The accuracy counts each test image once.
