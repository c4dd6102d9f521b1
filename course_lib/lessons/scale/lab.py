"""Lesson 15: a network shaped as a ring, two numbers that describe it, and what they say of ranks that nobody has.

`Ring` carries the gradients of DDP on real ranks asleep, as lesson 04's `Network` does. All else here is computed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.lab import network
from course_lib.lab.explorer import Explorer, buttons, explore, slider
from course_lib.lessons.scale.tasks.model import least_squares, ring_seconds, ring_terms
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Bar, Box, Cell, Drawing, Lane, Text, grid, lanes
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

    def measure(self, counts: Sequence[int]) -> dict[int, float]:
        """Run the loop of the lesson's first cell on every rank, in those groups of so many ranks that it is in."""
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        found = {}
        for n in counts:
            group = dist.new_group(list(range(n)))
            if dist.get_rank() < n:
                found[n] = self.step_seconds(DistributedDataParallel(sleepy_model(), process_group=group))
        return found


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


def simulated(size: int, n: int, shared: bool, latency: float = 50e-6, per_byte: float = 1e-9) -> float:
    """Simulate a ring all-reduce message by message, in seconds; a wire carries one message at a time."""
    ready, free = [0.0] * n, [0.0] * n  # when a rank has something to send, and when a wire is free
    for _ in range(2 * (n - 1)):
        arrives = {}
        for sender in sorted(range(n), key=ready.__getitem__):
            wire = 0 if shared else sender
            free[wire] = max(free[wire], ready[sender]) + size / n * per_byte
            arrives[(sender + 1) % n] = free[wire] + latency
        ready = [arrives[receiver] for receiver in range(n)]
    return max(ready)


_SIZES = (2**10, 2**17, 2**22)
_COUNTS = (2, 4, 8, 16)


def all_reduce_seconds() -> dict[tuple[int, int], float]:
    """Return the fastest of a few real all-reduces, by ranks and bytes; runs on 16 ranks."""
    import torch
    import torch.distributed as dist

    found = {}
    for n in _COUNTS:
        group = dist.new_group(list(range(n)))
        if dist.get_rank() < n:
            for size in _SIZES:
                tensor, runs = torch.zeros(size // 4), []
                for _ in range(3):
                    began = time.perf_counter()
                    dist.all_reduce(tensor, group=group)
                    runs.append(time.perf_counter() - began)
                found[n, size] = min(runs)
        dist.barrier()
    return found


def _is_near(ratio: float) -> bool:
    return 0.8 < ratio < 1.25


def _that_fits(off: Sequence[float]) -> str:
    """Return which of two formulas, that for own wires and that for one, is near what was measured."""
    near = [name for name, ratio in zip(("own wires", "one wire"), off, strict=True) if _is_near(ratio)]
    return f"“{near[0]}” is" if len(near) == 1 else "both are" if near else "neither is"


def draw_terms() -> Drawing:
    """Draw two formulas' times on 16 ranks relative to the truth, fitted to 2, 4 and 8 ranks of three networks.

    Two networks are simulated; the third is this machine, on which 16 real ranks run.
    """
    truths: dict[str, dict[tuple[int, int], float]] = {
        name: {(n, size): simulated(size, n, shared) for n in _COUNTS for size in _SIZES}
        for name, shared in (("own wires, simulated", False), ("one wire, simulated", True))
    }
    by_rank = run_quietly(all_reduce_seconds, ranks=16, backend="gloo").values
    truths["this machine, measured"] = {
        key: max(times[key] for times in by_rank.values() if key in times) for key in by_rank[0]
    }
    cells, texts = {}, []
    for row, (name, times) in enumerate(truths.items()):
        few = {key: seconds for key, seconds in times.items() if key[0] < 16}
        off = [_predict(_SIZES[-1], 16, fit(few, shared=s), s) / times[16, _SIZES[-1]] for s in (False, True)]
        for column, ratio in enumerate(off):
            look = "good" if _is_near(ratio) else "bad"
            cells[row, column] = Cell(look, f"{ratio:.1f}", f"{name}: {ratio:.2f} times")
        texts.append(f"{name}: {off[0]:.1f} by the formula for own wires, {off[1]:.1f} by that for one wire")
    return grid(
        list(truths),
        ["own wires", "one wire"],
        cells,
        title=f"16 ranks, 4 MiB: predicted / true. On this machine {_that_fits(off)} within a quarter",
        alt="; ".join(texts),
        axis="the formula that was fitted to 2, 4 and 8 ranks",
    )


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
        overlap: the part of backward during which something can be sent.
        way: a key of `ROUNDS`; bytes are those of a ring in both cases.
    """

    computing: float = 0.1
    gradients: float = 1e8
    latency: float = 1e-5
    bandwidth: float = 5e10
    overlap: float = 0.0
    way: str = "ring"

    def sending(self, ranks: int) -> float:
        """Return the seconds of one all-reduce of all gradients."""
        rounds = ROUNDS[self.way](ranks) if ranks > 1 else 0
        return rounds * self.latency + 2 * (ranks - 1) / ranks * self.gradients / self.bandwidth

    def efficiency(self, ranks: int, *, strong: bool = False) -> float:
        """Return the efficiency; weak: every rank computes as much as one did; strong: all together do."""
        computing = self.computing / (ranks if strong else 1)
        sending = self.sending(ranks)
        hidden = min(sending, self.overlap * _BACKWARD * computing)
        return computing / (computing + sending - hidden)


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
        "computing, gradients, latency, bandwidth, overlap, ring or tree",
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
        overlap=slider(
            "backward that hides sending", {f"{one} %": one / 100 for one in (0, 25, 50, 75, 100)}, 0.0
        ),
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


@dataclass(frozen=True)
class Training:
    """A training whose efficiency has been published.

    Attributes:
        gradients: bytes. images: per GPU and step. speed: images per second of one GPU.
        servers: how many; a ring passes the card of each once. card: bytes per second. reported: the efficiency.
    """

    name: str
    gradients: float
    images: float
    speed: float
    servers: int
    card: float
    reported: float

    def bracket(self) -> tuple[float, float]:
        """Return the efficiency with nothing hidden, and with all hidden that backward can hide; no latency."""
        computing = self.images / self.speed
        job = Job(computing, self.gradients, 0.0, self.card)
        return job.efficiency(self.servers), Job(**{**vars(job), "overlap": 1.0}).efficiency(self.servers)


TRAININGS = (
    Training("Inception V3", 4e6 * 23.9, 64, 142, 128, 25e9 / 8, 0.90),
    Training("ResNet-101", 4e6 * 44.7, 64, 1656.82 / 16, 128, 25e9 / 8, 0.90),
    Training("VGG-16", 4e6 * 138.4, 64, 154, 128, 25e9 / 8, 0.68),
    Training("ResNet-50, Goyal", 1e8, 32, 195, 32, 50e9 / 8, 0.90),
)


# -- predictions --------------------------------------------------------------------------------------------------


def gains(low: float, high: float) -> Callable[[Outcome], bool]:
    """Predict how many times as fast the larger number of ranks in the cell's `seconds` is as the smaller."""

    def is_between(outcome: Outcome) -> bool:
        seconds: Mapping[int, float] = outcome["seconds"][0]
        few, many = sorted(seconds)[-2:]
        return bool(low <= many / seconds[many] * seconds[few] / few < high)

    return is_between


def ring_sends(how: str) -> Callable[[Outcome], bool]:
    """Predict that the busiest rank sends `less`, `more` or the `same` in the ring, compared with the tree."""

    def is_so(outcome: Outcome) -> bool:
        ring, tree = (max(sent[way] for sent in outcome["sent"].values()) for way in ("ring", "tree"))
        return ("less" if ring < tree else "more" if ring > tree else "same") == how

    return is_so


def arrives_in_fp16(*, of_two: bool, of_four: bool) -> Callable[[Outcome], bool]:
    """Predict whether the mean over two ranks, and that over four, is about 1e-7, and not 0."""
    return lambda outcome: [mean > 5e-8 for mean in outcome["means"][0].values()] == [of_two, of_four]
