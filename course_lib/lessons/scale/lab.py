"""Lesson 15: a network shaped as a ring, two numbers that describe it, and what they say of ranks that nobody has.

`Ring` carries the gradients of DDP on real ranks asleep, as lesson 04's `Network` does. All else here is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from course_lib.lab import network
from course_lib.lab.explorer import Explorer, buttons, explore, slider
from course_lib.lessons.scale.tasks.model import efficiency, least_squares, ring_seconds, ring_terms
from realranks.draw import Arrow, Bar, Box, Drawing, Lane, Text, lanes
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

_MIB = 2**20
#: How many ranks one machine has.
NODE = 8


@dataclass(frozen=True)
class Ring:
    """A network on which an all-reduce is a ring, made of sleep.

    Attributes:
        latency: seconds of a round, however small its message is.
        bandwidth: MiB per second of the wire that each rank has.
        cable: between machines of eight ranks; a ring that passes it is no faster than it is.
    """

    latency: float
    bandwidth: float
    cable: Ring | None = None

    def network(self, ranks: int) -> network.Network:
        """Return a network of which one message is a whole all-reduce among so many ranks."""
        if ranks > NODE and self.cable is not None:
            return self.cable.network(ranks)
        rounds, sent = ring_terms(1, ranks)
        return network.Network(rounds * self.latency, self.bandwidth / sent if sent else math.inf)

    def step_seconds(self, ddp: DistributedDataParallel) -> float:
        """Return the shortest of three steps, forward and backward, of a model made by `sleepy_model`."""
        import torch.distributed as dist

        ranks = dist.get_world_size(ddp.process_group)
        return self.network(ranks).fastest_step(ddp, 3).seconds


def sleepy_model() -> nn.Sequential:
    """Make sixteen layers of 32 KiB whose backward takes 200 ms, asleep."""
    return network.sixteen_layers(0.0125, wide=128)


# -- two numbers --------------------------------------------------------------------------------------------------


def fit(times: Mapping[tuple[int, int], float], *, shared: bool = False) -> tuple[float, float]:
    """Fit latency (s) and seconds per byte of a ring, by least squares of relative errors.

    Args:
        times: seconds of an all-reduce, by ranks and bytes.
        shared: all ranks share one wire.
    """
    rows = []
    for (n, size), seconds in times.items():
        rounds, sent = _terms(size, n, shared)
        rows.append((rounds / seconds, sent / seconds, 1.0))
    return least_squares(rows)


def _terms(size: float, n: int, shared: bool) -> tuple[float, float]:
    rounds, sent = ring_terms(size, n)
    return rounds, sent * n if shared else sent


def _predict(size: float, n: int, numbers: tuple[float, float], shared: bool = False) -> float:
    rounds, sent = _terms(size, n, shared)
    return rounds * numbers[0] + sent * numbers[1]


#: The two formulas, by whether all ranks share one wire.
_WIRES = {False: "own wires", True: "one wire"}
_COUNTS = (2, 4, 8, 16)


def draw_fits(measured: Mapping[tuple[int, int], float], sixteen: float | None = None) -> Drawing:
    """Draw two formulas, fitted to 2, 4 and 8 ranks, with what they say of 16 ranks; dots are measured.

    Args:
        measured: seconds of real all-reduces, by ranks and bytes; drawn are those of the largest size.
        sixteen: seconds on 16 ranks of this size, where they have been measured.
    """
    size = max(size for _, size in measured)
    curves = {
        shared: [_predict(size, n, fit(measured, shared=shared), shared) for n in range(2, 17)]
        for shared in _WIRES
    }
    dots = {n: measured[n, size] for n in _COUNTS if (n, size) in measured}
    if sixteen:
        dots[16] = sixteen
    highest = max(*dots.values(), *(max(curve) for curve in curves.values()))

    def at(n: float, seconds: float) -> tuple[float, float]:
        return 60 + 34 * n, 210 - 190 * max(0.0, seconds) / highest

    shapes: list[Shape] = [Arrow(96, 210, 650, 210, 1, plain=True)]
    shapes += [Text(at(n, 0)[0], 227, f"{n} ranks", 12, "middle") for n in _COUNTS]
    for shared, curve in curves.items():
        points = [at(n, seconds) for n, seconds in enumerate(curve, start=2)]
        for one, other in pairwise(points):
            shapes.append(Arrow(*one, *other, 2, dashed=shared, plain=True))
        said = f"{_WIRES[shared]}: {1e3 * curve[-1]:.0f} ms"
        shapes.append(Text(points[-1][0] + 12, points[-1][1] + 4, said, 12))
    for n, seconds in dots.items():
        x, y = at(n, seconds)
        hint = f"{n} ranks, measured: {1e3 * seconds:.1f} ms"
        shapes.append(Box(x - 5, y - 5, 10, 10, "good" if n == 16 else "odd", "", hint))
    said = " or ".join(f"{1e3 * curve[-1]:.0f}" for curve in curves.values())
    title = f"{size / _MIB:g} MiB, fitted to 2, 4 and 8 ranks: 16 should take {said} ms"
    if sixteen:
        wrong = [_WIRES[shared] for shared, curve in curves.items() if not 0.5 < curve[-1] / sixteen < 2]
        off = f"off by more than a factor of two: {' and '.join(wrong) or 'neither'}"
        title = f"16 ranks took {1e3 * sixteen:.0f} ms. Computed: {said} ms; {off}"
    alt = "Measured all-reduces on 2, 4 and 8 ranks, and two formulas fitted to them, for own wires and for one wire"
    return Drawing(760, 236, tuple(shapes), alt, title)


# -- machines -----------------------------------------------------------------------------------------------------


def draw_machines() -> Drawing:
    """Draw eight machines of eight GPUs: links inside a machine, and one network between them."""
    shapes: list[Shape] = []
    across, gpu = 93.0, 17.0
    for machine in range(8):
        x = 8 + machine * across
        shapes += [
            Box(x, 6, across - 11, 96, edge=1.5),
            Text(x + (across - 11) / 2, 96, f"machine {machine}", 11, "middle"),
            Box(x + 8, 38, across - 27, 8, "communication", "", "links between the GPUs of a machine", 0.5),
        ]
        for place in range(8):
            left, top = x + 8 + (place % 4) * (gpu - 0.3), (16, 50)[place // 4]
            look = "forward" if machine == 0 else "even"
            shapes.append(Box(left, top, gpu - 2, 20, look, "", f"GPU {8 * machine + place}", 0.5))
        middle = x + (across - 11) / 2
        shapes.append(Arrow(middle, 102, middle, 128, 2, plain=True))
    shapes += [
        Box(
            8,
            128,
            8 * across - 11,
            18,
            "waiting",
            "the network between machines: a card of 50 GB/s for each GPU, 10 µs",
        ),
        Box(8, 158, 20, 12, "communication", edge=0.5),
        Text(34, 168, "links inside a machine: 300 GB/s for each GPU, 2 µs"),
        Box(390, 158, 20, 12, "forward", edge=0.5),
        Text(416, 168, "the eight GPUs that have been measured"),
    ]
    alt = (
        "Eight machines with eight GPUs each. Inside a machine, fast links join the GPUs: 300 GB/s and 2 microseconds. "
        "Between the machines there is one network: a card of 50 GB/s for each GPU and 10 microseconds. The eight GPUs "
        "of the first machine have been measured."
    )
    return Drawing(760, 178, tuple(shapes), alt, "Eight GPUs are one machine, 64 are eight machines")


#: Seconds per round and bytes per second, of a link inside a machine and of a network card between machines.
INSIDE, BETWEEN = (2e-6, 300e9), (10e-6, 50e9)


def flat_ring(size: float, ranks: int) -> float:
    """Return the seconds of an all-reduce by one ring through all machines."""
    return ring_seconds(size, ranks, *(INSIDE if ranks <= NODE else BETWEEN))


def two_levels(size: float, ranks: int) -> float:
    """Return the seconds of a reduce-scatter and all-gather inside machines around an all-reduce between them.

    Each of a machine's eight ranks sends its eighth over a card of its own, where one ring passes one card.
    """
    inside = ring_seconds(size, min(ranks, NODE), *INSIDE)
    return inside + (ring_seconds(size / NODE, ranks // NODE, *BETWEEN) if ranks > NODE else 0)


def double_tree(size: float, ranks: int) -> float:
    """Return the seconds of two pipelined trees over all ranks: few rounds, and each rank sends the tensor twice."""
    latency, bandwidth = INSIDE if ranks <= NODE else BETWEEN
    return 2 * math.ceil(math.log2(ranks)) * latency + 2 * size / bandwidth


# -- efficiency ---------------------------------------------------------------------------------------------------

#: Rounds of an all-reduce on n ranks.
ROUNDS: dict[str, Callable[[int], int]] = {
    "ring": lambda n: 2 * (n - 1),
    "tree, halving": lambda n: 2 * math.ceil(math.log2(n)),
}
#: Of a step's computing, what backward takes, and with it what can hide sending; a rule of thumb.
_BACKWARD = 2 / 3


@dataclass(frozen=True)
class Job:
    """A training step and a network of one level.

    Attributes:
        computing: seconds of a step on one rank. gradients: their bytes.
        latency: seconds per round. bandwidth: bytes per second.
        buckets: how many, of one size; the last one is ready when backward is over.
        way: a key of `ROUNDS`; bytes are those of a ring in both cases.
    """

    computing: float = 0.1
    gradients: float = 1e8
    latency: float = 1e-5
    bandwidth: float = 5e10
    buckets: int = 1
    way: str = "ring"

    def efficiency(self, ranks: int, *, strong: bool = False) -> float:
        """Return the efficiency; weak: every rank computes as much as one did; strong: all together do."""
        computing = self.computing / (ranks if strong else 1)
        backward, ring = _BACKWARD * computing, ROUNDS["ring"](ranks)
        ready = [backward * (number + 1) / self.buckets for number in range(self.buckets)]
        return efficiency(
            {
                "forward": computing - backward,
                "backward": backward,
                "buckets": [{"ready": at, "bytes": round(self.gradients / self.buckets)} for at in ready],
                "ranks": ranks,
                "latency": self.latency * ROUNDS[self.way](ranks) / ring if ring else 0.0,
                "bandwidth": self.bandwidth,
            }
        )


def draw_efficiency(job: Job, counts: Sequence[int] = (1, 2, 4, 8, 16, 64, 256, 1024)) -> Drawing:
    """Draw two bars for each number of ranks: efficiency with weak and with strong scaling."""
    found, texts = [], []
    for n in counts:
        weak, strong = 100 * job.efficiency(n), 100 * job.efficiency(n, strong=True)
        hint = (
            f"{n} ranks: {n * weak / 100:.3g} (weak) or {n * strong / 100:.3g} (strong) times as fast as one"
        )
        tracks = (
            (Bar(0, weak, "forward", f"{weak:.0f} %: {n * weak / 100:.3g} times as fast", hint),),
            (Bar(0, strong, "communication", "", hint),),
        )
        found.append(Lane(f"{n} ranks" if n > 1 else "1 rank", tracks))
        texts.append(f"{n}: {weak:.0f} and {strong:.0f} %")
    gained = 64 * job.efficiency(64)
    return lanes(
        found,
        title=f"8 ranks: {8 * job.efficiency(8):.1f} times as fast; 64 ranks: {gained:.0f} times (weak)",
        alt=f"Efficiency with weak and with strong scaling, by ranks: {'; '.join(texts)}",
        legend={
            "forward": "weak: the same batch per rank",
            "communication": "strong: the same batch for all",
        },
        unit="efficiency (%)",
    )


def explore_efficiency() -> Explorer:
    """Return controls for a step and a network: the efficiency for 1 to 1,024 ranks, computed."""
    first = Job()
    sizes = {f"{one:g} MB": one * 1e6 for one in (1, 10, 50, 100, 500, 1000, 5000)}
    rounds = {"0": 0.0} | {f"{one:g} µs": one / 1e6 for one in (1, 2, 5, 10, 50, 100, 400, 1000)}
    speeds = {f"{one:g} GB/s": one * 1e9 for one in (1.25, 3.125, 12.5, 25, 33, 50, 100, 300)}
    return explore(
        lambda **chosen: draw_efficiency(Job(**chosen)),
        "computing, gradients, latency, bandwidth, buckets, ring or tree",
        "two settings in which eight ranks are about 7.6 times as fast as one: one with latency 0, one with a "
        "bandwidth without end. How fast are 64 ranks in each? Then find what brings 64 ranks back to 90 %, "
        "without a better network.",
        computing=slider(
            "computing on one rank",
            {f"{one:g} ms": one / 1e3 for one in (5, 10, 20, 50, 100, 200, 500, 1000)},
            first.computing,
        ),
        gradients=slider("gradients", sizes, first.gradients),
        latency=slider("latency of a round", rounds, first.latency),
        bandwidth=slider("bandwidth", speeds | {"without end": math.inf}, first.bandwidth),
        buckets=slider("buckets", [1, 2, 4, 8, 16, 64], first.buckets),
        way=buttons("rounds", list(ROUNDS)),
    )


def from_eight_to_64(speed_up: float = 7.6) -> dict[str, float]:
    """Compute the speed of 64 ranks for each cause of this speed on eight; one network, nothing hidden."""
    longer = 8 / speed_up - 1
    grow = {
        "bytes": (63 / 64) / (7 / 8),
        "rounds of a ring": ROUNDS["ring"](64) / ROUNDS["ring"](8),
        "rounds of a tree": ROUNDS["tree, halving"](64) / ROUNDS["tree, halving"](8),
    }
    return {what: 64 / (1 + longer * times) for what, times in grow.items()}


# -- what others have measured ------------------------------------------------------------------------------------

_ALGBW = (
    "0.33 0.66 1.21 2.10 3.61 6.44 10.73 16.33 26.12 37.06 73.76 102.07 134.45 146.18 159.95 188.90 191.62 193.37 "
    "194.14 194.43"
)
#: All-reduces over 32 B200 GPUs in four nodes: bytes per second (algbw), by size. Stas Bekman, *Machine Learning
#: Engineering Open Book*, stas00/ml-engineering at 0cc3de5, network/benchmarks/README.md.
B200_FOUR_NODES = {2 ** (15 + k): 1e9 * float(word) for k, word in enumerate(_ALGBW.split())}
#: The same over the eight GPUs of one node, from its network/README.md; there it is busbw.
B200_ONE_NODE = {
    size: 1e9 * busbw / (2 * 7 / 8)
    for size, busbw in {2**15: 2.17, 2**20: 58.54, 2**24: 294.36, 2**30: 721.37, 2**34: 838.97}.items()
}


# -- predictions --------------------------------------------------------------------------------------------------


def gains(low: float, high: float) -> Callable[[Outcome], bool]:
    """Predict how many times as fast the larger number of ranks in the cell's `seconds` is as the smaller."""

    def is_between(outcome: Outcome) -> bool:
        seconds: Mapping[int, float] = outcome["seconds"][0]
        few, many = sorted(seconds)[-2:]
        return bool(low <= many / seconds[many] * seconds[few] / few < high)

    return is_between


def takes(low: float, high: float) -> Callable[[Outcome], bool]:
    """Predict how many times as long as on 8 ranks the all-reduce takes on 16."""
    return lambda outcome: low <= outcome["seconds"][0][16] / outcome["seconds"][0][8] < high


def ring_sends(how: str) -> Callable[[Outcome], bool]:
    """Predict that the busiest rank sends `less`, `more` or the `same` in the ring, compared with the tree."""

    def is_so(outcome: Outcome) -> bool:
        ring, tree = (max(sent[way] for sent in outcome["sent"].values()) for way in ("ring", "tree"))
        return ("less" if ring < tree else "more" if ring > tree else "same") == how

    return is_so


def arrives_in_fp16(*, of_two: bool, of_four: bool) -> Callable[[Outcome], bool]:
    """Predict whether the mean over two ranks, and that over four, is about 1e-7, and not 0."""
    return lambda outcome: [mean > 5e-8 for mean in outcome["means"][0].values()] == [of_two, of_four]
