"""What a rank's probe tells: JSON, so that a blocked rank can be asked for it, with its keys written down here.

Made by `probe` and the modules that it uses, read by the doctor. A checksum is None, and a list of values is empty,
where a tensor has no data or could not be looked at (`unseen` says why).
"""

from __future__ import annotations

from typing import TypedDict

#: Checksum and some values of a tensor (`weights.digest`); a value that is not finite is None.
Digest = tuple[int | None, list[float | None]]


class Counts(TypedDict):
    """How often a rank has done what, over all of its models and loaders."""

    forwards: int
    backwards: int
    batches: int
    steps: int


class ModelRecord(TypedDict):
    """One DDP wrapper, numbered from 0 in the order in which the rank has made them (see `probe.Model`)."""

    number: int
    ranks: list[int]
    type: str
    found: bool
    statistics: list[str]
    forwards: int
    backwards: int
    steps: int
    bare_backwards: int
    no_sync_steps: int
    plain_forwards: int
    bypassed: int
    without_gradient: list[str]
    parameters: int
    inputs: list[int]
    events: dict[str, str]


class Calls(TypedDict):
    """The newest calls of DDP models: the model's number and the learner's line; `first` is the number of the first."""

    first: int
    last: list[tuple[int, str]]


class EpochRecord(TypedDict):
    """One pass over a loader (see `loaders.Epoch`)."""

    indices: list[int]
    batches: int
    crc: int


class LoaderRecord(TypedDict):
    """One DataLoader, numbered from 0 in the order of their first use (see `loaders.Loader`)."""

    number: int
    sampler: str
    shuffles: bool
    samples: int
    share: list[int]
    trains: bool
    epochs: list[EpochRecord]


class WeightCheck(TypedDict):
    """The parameters and buffers of a DDP model before a step; step -1 is the end of the run."""

    model: int
    step: int
    parameters: dict[str, Digest]
    buffers: dict[str, Digest]
    managed: bool
    late: list[str]


class GradientCheck(TypedDict):
    """What an optimizer is about to use, by `0:weight` (the number of the model, the name of the parameter)."""

    step: int
    gradients: dict[str, Digest]
    reduced: dict[str, Digest]
    settings: list[dict[str, float]]


#: Its name in the code, its shape, its digest, that of its gradient, and the ranks that hold the same data
#: (`weights.holders`).
OutsideRow = tuple[str, list[int], Digest, Digest, list[int] | None]


class OutsideCheck(TypedDict):
    """What an optimizer steps that belongs to no DDP model."""

    optimizer: int
    step: int
    beside_ddp: bool
    parameters: list[OutsideRow]
    settings: list[dict[str, float]]


class Waiting(TypedDict):
    """Seconds that were watched, and the share of them in which the rank waited for others."""

    seconds: float
    share: float


#: Which of its group's collectives with a root it was (from 0), the operation, the root's rank in the group, the line.
RootedCall = tuple[int, str, int, str]


class ExchangeRecord(TypedDict):
    """Messages between two ranks, collectives with a root by group, and calls for a group the rank is not in."""

    messages: int
    rooted: dict[str, list[RootedCall]]
    strange: list[str]


class ProbeRecord(ExchangeRecord):
    """Everything that one rank's probe tells."""

    counts: Counts
    bare_backwards: int
    no_sync_steps: int
    failures: list[dict[str, str]]  # `in`, `type`, `where` and `message` of what passes have raised
    unseen: dict[str, str]
    models: list[ModelRecord]
    calls: Calls
    loaders: list[LoaderRecord]
    weights: list[WeightCheck]
    gradients: list[GradientCheck]
    outside: list[OutsideCheck]
    waiting: Waiting
    groups: dict[str, list[int]]
