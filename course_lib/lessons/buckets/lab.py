"""Lesson 04: the model and the measure of its experiments; buckets that fill up, and one backward pass, as pictures.

What begins with "Runs on a rank" imports torch where it is called; the rest runs in the kernel, without torch.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from course_lib.data import load_digits
from course_lib.lab.traces import last_forward, seconds_waited, spans_since, timeline_of
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Frame, Lane, Stepper, Text, lanes
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome
from realranks.outcome.spans import Stage
from realranks.outcome.timeline import Timeline
from realranks.outcome.timeline_drawing import tracks

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.futures import Future

_WORDS = {
    "forward": "forward",
    "backward": "backward",
    "waiting": "waiting",
    "optimizer": "optimizer",
    "communication": "all-reduces under way",
}


def draw_backward(outcome: Outcome) -> Drawing:
    """Draw a lane for each rank of a traced run: its last backward and what follows, above the all-reduces.

    The title names the rank that waited longest.
    """
    timeline = timeline_of(outcome)
    begins = {rank: last_backward(timeline, rank) for rank in timeline.ranks}
    first = min(begins.values())
    waited = {rank: seconds_waited(spans_since(timeline, rank, begin)) for rank, begin in begins.items()}
    return lanes(
        [Lane(f"rank {rank}", tuple(tracks(timeline.spans, rank, since=first))) for rank in timeline.ranks],
        title=f"Rank {max(waited, key=lambda rank: waited[rank])} waits longest in backward()",
        alt="A lane for each rank: the last backward pass, and the all-reduces beside it.",
        legend=_WORDS,
        unit="milliseconds since backward began",
    )


def last_backward(timeline: Timeline, rank: int) -> float:
    """Return when a rank's last backward began, in seconds: after its last forward of a DDP model, if any."""
    forward = last_forward(timeline, rank)
    later = spans_since(timeline, rank, forward)
    return min((span.start for span in later if span.stage is Stage.BACKWARD), default=forward)


# -- the experiments' model and measure -----------------------------------------------------------------------------

#: Samples of the whole batch, which the ranks share.
SAMPLES = 256


def make_model() -> nn.Sequential:
    """Make ten layers for the digits, eight of them of 1 MiB, with the same weights on every rank."""
    import torch

    torch.manual_seed(0)
    layers: list[nn.Module] = [torch.nn.Linear(64, 512), torch.nn.ReLU()]
    for _ in range(8):
        layers += [torch.nn.Linear(512, 512), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))


def loss_of(model: nn.Module, *, whole: bool = False) -> torch.Tensor:
    """Return the mean loss over this rank's part of the batch (every n-th of 256 digits), or over the whole."""
    import torch
    import torch.distributed as dist

    images, labels = load_digits()
    part = slice(0, SAMPLES, 1) if whole else slice(dist.get_rank(), SAMPLES, dist.get_world_size())
    device = next(model.parameters()).device
    inputs = torch.from_numpy(images[part]).float().flatten(1) / 16
    targets = torch.from_numpy(labels[part]).long()
    return torch.nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))


def backward(model: nn.Module, *, whole: bool = False) -> None:
    """Compute new gradients, those of `loss_of`."""
    model.zero_grad()
    loss_of(model, whole=whole).backward()


def gradients(model: nn.Module) -> torch.Tensor:
    """Return all gradients as one vector, in the order of the parameters."""
    import torch

    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def is_right(model: nn.Module) -> bool:
    """Return whether these are the gradients of the whole batch, as a copy of the model computes them alone.

    The difference may be a 100,000th of their length: rounding, because sums are taken in another order.
    """
    right = _right_gradients(next(model.parameters()).device)
    # One by one: a copy of them all would be in the trace of the cell that asks.
    off = sum(
        ((p.grad - r) ** 2).sum().item()
        for p, r in zip(model.parameters(), right, strict=True)
        if p.grad is not None
    )
    return off < 1e-10 * sum((r**2).sum().item() for r in right)


@functools.cache
def _right_gradients(device: torch.device) -> list[torch.Tensor]:
    alone = make_model().to(device)
    backward(alone, whole=True)
    return [p.grad for p in alone.parameters() if p.grad is not None]


def time_all_reduces() -> list[tuple[int, float]]:
    """Return sizes of tensors (4 bytes to 4 MiB), and the shortest of some all-reduces of each, in seconds."""
    import torch
    import torch.distributed as dist

    found = []
    for power in range(2, 23, 2):
        tensor = torch.zeros(2**power // 4)
        shortest = float("inf")
        for _ in range(30 if power < 20 else 3):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(tensor)
            shortest = min(shortest, time.perf_counter() - begin)
        found.append((2**power, shortest))
    return found


def plot_costs() -> None:
    """Plot the cost of an all-reduce between two ranks by the size of its tensor."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    timed: list[tuple[int, float]] = run_quietly(time_all_reduces, ranks=2).values[0]
    sizes, seconds = zip(*timed, strict=True)
    _, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    axes.loglog(sizes, [1e3 * s for s in seconds], "o-", color="#0072B2", base=2)
    axes.set_yscale("log", base=10)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks([2**p for p in range(2, 23, 4)], ["4 B", "64 B", "1 KiB", "16 KiB", "256 KiB", "4 MiB"])
    axes.set(
        title=f"16,384 times as many bytes (4 B to 64 KiB) take {seconds[7] / seconds[0]:.1f} times as long",
        xlabel="size of the tensor",
        ylabel="one all-reduce (ms)",
    )
    plt.show()


class Caps(TypedDict, total=False):
    """The sizes of DDP's buckets in MiB, as `DistributedDataParallel` takes them."""

    bucket_cap_mb: int
    bucket_cap_mb_list: list[int]


def bucket_sizes(**caps: Unpack[Caps]) -> list[list[float]]:
    """Return the MiB of each bucket, in the order of sending, in the first two iterations; runs on a rank.

    Args:
        caps: what the model is given to `DistributedDataParallel` with.
    """
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel

    def note(bucket: dist.GradBucket) -> Future[torch.Tensor]:
        seen[-1].append(round(bucket.buffer().nbytes / 2**20, 2))
        return allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]  # typed as if it could be None

    ddp = DistributedDataParallel(make_model(), **caps)
    # No annotations in sight: DDP compares them with its own classes, and these are strings.
    ddp.register_comm_hook(None, lambda _, bucket: note(bucket))
    seen: list[list[float]] = []
    for _ in range(2):
        seen.append([])
        backward(ddp)
    return seen


def crossed_model() -> nn.Module:
    """Make three layers, registered in another order than the one in which forward calls them."""
    import torch

    class Crossed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second, self.third, self.first = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return cast("torch.Tensor", self.third(self.second(self.first(x))))

    return Crossed()


# -- predictions --------------------------------------------------------------------------------------------------


def first_message_has(mib: float) -> Callable[[Outcome], bool]:
    """Predict that rank 0's first all-reduce of gradients has about so many MiB."""

    def has(outcome: Outcome) -> bool:
        sent = next((sent for sent in outcome.collectives[0] if sent.stage == "gradients"), None)
        numbers = sum(size[0] for size in sent.sizes) if sent is not None else 0
        return abs(4 * numbers / 2**20 - mib) < 0.25

    return has


def waits_in(call: str) -> Callable[[Outcome], bool]:
    """Predict that a rank waits in a line with this call."""
    return lambda outcome: any(call in waiting.source for waiting in outcome.waiting.values())


def differs_on_rank_1(outcome: Outcome) -> bool:
    """Return whether the cell ends well, and its value is true on rank 0 only."""
    return outcome.ok and outcome.values == {0: True, 1: False}


def second_has(mib: float) -> Callable[[Outcome], bool]:
    """Predict that the second bucket has about so many MiB, within the size of a bias."""
    return lambda outcome: abs(outcome.values[0][1] - mib) < 0.1


def graphs_are(wrapped_first: int, compiled_first: int) -> Callable[[Outcome], bool]:
    """Predict how many graphs two orders of wrapping and compiling make on rank 0."""
    return lambda outcome: [*outcome["graphs"][0].values()][:2] == [wrapped_first, compiled_first]


# -- buckets that fill up -----------------------------------------------------------------------------------------

#: The layers of the drawing, by bucket in the order in which they are sent.
_BUCKETS = ((8, 7, 6), (5, 4, 3), (2, 1))
_LEFT, _LAYER, _BETWEEN = 66, 78, 14
_NETWORK, _HIGH = 98, 26
#: Each moment: how many gradients rank 0 and rank 1 have computed, how many all-reduces are done, and what it shows.
_MOMENTS = (
    (
        (0, 0),
        0,
        "The forward is over. Backward goes from the last layer, 8, to the first. All buckets are empty.",
    ),
    (
        (2, 1),
        0,
        "Rank 0 has computed two gradients, rank 1 only one. They lie in bucket 0; nothing is sent yet.",
    ),
    (
        (3, 2),
        0,
        "On rank 0 bucket 0 is full. Its all-reduce cannot begin before rank 1's bucket 0 is full, too.",
    ),
    (
        (4, 3),
        0,
        "Now bucket 0 is under way between the ranks, and both go on computing: this is the overlap.",
    ),
    ((6, 5), 1, "Bucket 0 holds the mean on both ranks. On rank 0 bucket 1 is full and waits for rank 1."),
    (
        (8, 7),
        1,
        "Bucket 1 is under way. Rank 0 has nothing left to compute, but two of its buckets have not arrived.",
    ),
    ((8, 8), 2, "Backward is over on both ranks, and bucket 2 leaves only now: no computation hides it."),
    ((8, 8), 3, "All buckets have arrived: both ranks have the same gradients, the mean of their own."),
)


def buckets_fill() -> Stepper:
    """Show one backward on two ranks, moment by moment: gradients come, buckets fill up and leave."""
    frames = tuple(Frame(filling(ready, done), said) for ready, done, said in _MOMENTS)
    return Stepper(frames, "Buckets fill from the last layer on, and leave while backward is running", (3, 6))


def filling(ready: tuple[int, int], done: int) -> Drawing:
    """Draw two ranks above and below a network.

    Args:
        ready: how many gradients each has computed, from the last layer on.
        done: how many all-reduces are over.
    """
    shapes: list[Shape] = [
        Text(_LEFT, 12, "forward →", 12, faint=True),
        Text(_x(8) + _LAYER, 12, "← backward", 12, "end", bold=True),
        Text(_LEFT - 10, _NETWORK + 24, "network", 13, "end"),
    ]
    for rank, top in ((0, 18), (1, _NETWORK + 56)):
        shapes.append(Text(_LEFT - 10, top + 32, f"rank {rank}", 13, "end"))
        shapes += _memory(ready[rank], top, done, upwards=rank == 1)
    for number, layers in enumerate(_BUCKETS):
        shapes += _message(number, layers, ready, done)
    title = "One backward on two ranks"
    return Drawing(760, _NETWORK + 56 + 2 * _HIGH + 8, tuple(shapes), title, title)


def _x(layer: int) -> float:
    between = sum(layer > layers[0] for layers in _BUCKETS)
    return _LEFT + (layer - 1) * _LAYER + between * _BETWEEN


def _memory(ready: int, top: float, done: int, *, upwards: bool) -> list[Shape]:
    """Draw a rank's layers, and beside the network its buckets with the gradients that are there."""
    shapes: list[Shape] = []
    layers_at, gradients_at = (top + _HIGH + 4, top) if upwards else (top, top + _HIGH + 4)
    for number, layers in enumerate(_BUCKETS):
        for layer in layers:
            has_come = 8 - layer < ready
            place = (_x(layer), layers_at, _LAYER, _HIGH)
            shapes.append(
                Box(*place, "backward" if has_come else "even", f"layer {layer}", edge=0.5, size=11)
            )
            place = (_x(layer), gradients_at, _LAYER, _HIGH)
            if number < done:
                shapes.append(Box(*place, "sum", "mean", edge=0.5, size=11))
            elif has_come:
                shapes.append(Box(*place, "odd", "gradient", edge=0.5, size=11))
            else:
                shapes.append(Box(*place, "plain", edge=0.5, dashed=True))
        shapes.append(Box(_x(layers[-1]), gradients_at, len(layers) * _LAYER, _HIGH, edge=2))
    return shapes


def _message(number: int, layers: tuple[int, ...], ready: tuple[int, int], done: int) -> list[Shape]:
    """Draw a bucket's all-reduce on the network."""
    full = [8 - layers[-1] < count for count in ready]
    place = (_x(layers[-1]), _NETWORK, len(layers) * _LAYER, 38.0)
    middle = place[0] + place[2] / 2
    above, below = _NETWORK - 18, _NETWORK + 56
    if number < done:
        return [Box(*place, "plain", f"bucket {number}: done", edge=0.5)]
    if all(full) and number == done:
        return [
            Box(*place, "communication", f"all-reduce of bucket {number}", edge=1, size=11),
            Arrow(middle, above, middle, _NETWORK - 1, 2),
            Arrow(middle, below, middle, _NETWORK + 39, 2),
        ]
    if any(full):
        start, end = (above, _NETWORK - 1) if full[0] else (below, _NETWORK + 39)
        return [
            Box(*place, "plain", f"bucket {number} waits", edge=0.5, dashed=True, size=11),
            Arrow(middle, start, middle, end, 2),
        ]
    return [Box(*place, "plain", f"bucket {number}", edge=0.5, dashed=True, size=11)]
