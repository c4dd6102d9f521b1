"""The notes that a rank's probe takes while a script is watched (`watch.probe`), as the doctor reads them.

They are filled on the rank while it runs, and sent as they are: `ranks.codec` writes and reads them, and nothing else
comes from a rank. What a hook fills bit by bit is not frozen; nobody changes what has come from a rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from realranks.outcome.places import Spot
from realranks.outcome.wrapped import WrappedModel


class Digest(NamedTuple):
    """A summary of a tensor: a checksum, None where there is no data, and some of its values, None where not finite."""

    crc: int | None
    values: tuple[float | None, ...]


class ModelCall(NamedTuple):
    """A call of a DDP model: the model's number, and the learner's line."""

    model: int
    where: str


class RootedCall(NamedTuple):
    """A collective with a root: its number in its group (from 0), its name, the root's rank in the group, the line."""

    number: int
    operation: str
    root: int
    where: str


class OutsideParameter(NamedTuple):
    """A parameter that no DDP model holds: its name in the code, its shape, the digests of its data and its gradient.

    `among` are the ranks that are to hold the same data; None where nothing says that only some are.
    """

    name: str
    shape: tuple[int, ...]
    data: Digest
    gradient: Digest
    among: tuple[int, ...] | None


@dataclass
class Counts:
    """Counts of what a rank has done, over all of its models and loaders."""

    forwards: int = 0
    backwards: int = 0
    batches: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Failure:
    """An error that a forward or backward pass raised.

    Attributes:
        what: `forward` or `backward`.
        type: the name of the exception's class.
        where: the learner's line.
        message: its text.
        model: the DDP model in question, of the first failures.
        forwards: how often it was called since the last backward pass that reached it.
        nested: another backward pass has run within this one.
    """

    what: str
    type: str
    where: str
    message: str
    model: WrappedModel | None = None
    forwards: int = 0
    nested: bool = False


@dataclass
class ModelNotes:
    """One DDP wrapper.

    Attributes:
        number: counted from 0 in the order in which the rank has made them.
        ranks: those among which it averages.
        type: of what is wrapped.
        found: it was there before the watching began.
        statistics: the buffers that are a norm's.
        forwards, backwards: calls with gradients on, and backward passes that average them.
        steps: of the optimizers that hold its parameters.
        bare_backwards: backward passes that reached it and that it did not reduce, because no forward pass came before.
        within_forward: those of them that ran within its forward, for which nobody had prepared DDP's reducer.
        unheard: backward passes that a static graph was to reduce, and that DDP was not told of.
        output: the type of what its forward returned, where DDP has found no tensor in it.
        unfinished: DDP's complaint about a reduction that was not finished when an optimizer used the gradients.
        wrapped: the model as it was then.
        touched: steps before which other code than an optimizer's has changed its weights; -1 is the end of the run.
        no_sync_steps: steps after `no_sync()` alone.
        plain_forwards: calls without gradients.
        bypassed: calls of the wrapped module itself.
        without_gradient: parameters that had none after the last backward pass.
        parameters: how many it has.
        never: parameters that have had no gradient after any of its backward passes.
        cut: those of them that feed a collective which no gradient comes back through, such as all_gather.
        evaluating: backward passes of which all forward passes were made in evaluation mode.
        has_modes: it has dropout or batch normalisation, which differ between the modes.
        modes: by step that is compared, those of its parts that were in evaluation mode in a backward pass.
        inputs: checksums of what it was called with first.
        copies: checksums of other modules with parameters of the same shapes, at the end, or, where they are gone by
            then, when an evaluation of something else than DDP models had ended.
        copies_at: the step and the loader of that evaluation; empty at the end.
        first_copies: the same checksums before the first step.
        events: the learner's line at which something happened last, by what it was.
    """

    number: int
    ranks: tuple[int, ...] = ()
    type: str = ""
    found: bool = False
    statistics: tuple[str, ...] = ()
    forwards: int = 0
    backwards: int = 0
    steps: int = 0
    bare_backwards: int = 0
    within_forward: int = 0
    unheard: int = 0
    output: str = ""
    unfinished: str = ""
    wrapped: WrappedModel | None = None
    touched: list[int] = field(default_factory=list)
    no_sync_steps: int = 0
    plain_forwards: int = 0
    bypassed: int = 0
    without_gradient: tuple[str, ...] = ()
    parameters: int = 0
    never: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    evaluating: int = 0
    has_modes: bool = False
    modes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    events: dict[str, str] = field(default_factory=dict)
    copies: list[int] = field(default_factory=list)
    copies_at: tuple[int, ...] = ()
    first_copies: list[int] = field(default_factory=list)


@dataclass
class Calls:
    """The newest calls of DDP models; `first` is the number of the first of them."""

    first: int = 0
    last: list[ModelCall] = field(default_factory=list)


class Draw(NamedTuple):
    """A generator beside a pass, or a loader's batch: a checksum of its state, how many numbers it has given at least.

    Attributes:
        rows: of the pass, or the batch.
    """

    state: int
    numbers: int
    rows: int


#: Loaders that are noted on each rank, the first.
MAX_LOADERS = 8
#: Rows of one pass over a loader of which a checksum is made.
MAX_ROWS = 1000
#: Numbers of samples that are kept of one epoch, the first.
MAX_INDICES = 5000


class Row(NamedTuple):
    """A sample as a loader gave it: its number (-1 in a stream), a checksum of what it is, and its label, if any."""

    number: int
    crc: int
    label: int | None


@dataclass
class EpochNotes:
    """One pass over a loader: the numbers of the samples as drawn (the first of many), and a checksum of all.

    Attributes:
        ended: the loader had no more; False where the script left the loop.
        counted: it gave as many batches as it says it has, whether or not the script has asked for more.
        evaluates: a model was called on what it gave, without gradients only.
        rows: what the loader gave (the first of many).
        skipped: batches that it had given before a model was trained with one.
        settings: whole numbers of dataset and sampler that are named after an epoch or a seed, as they were then.
    """

    indices: list[int] = field(default_factory=list)
    batches: int = 0
    crc: int = 0
    ended: bool = False
    counted: bool = False
    evaluates: bool = False
    rows: list[Row] = field(default_factory=list)
    skipped: int = 0
    settings: Mapping[str, int] = field(default_factory=dict)


@dataclass
class LoaderNotes:
    """One DataLoader.

    Attributes:
        number: counted from 0 in the order of their first use.
        sampler: the name of its class.
        shuffles: whether the sampler is to shuffle: it says so, or can be told the epoch.
        samples: how many the dataset has; -1 where it does not say.
        share: where the sampler says so, its own rank and the number of ranks it deals to.
        trains: a model was trained with what it gave.
        passes: how often it was gone through, as far as that has begun.
        length: the batches of each whole pass; 0 before the first, -1 where they differ.
        has_more: its newest pass has not given all its batches, as far as it is known how many these are.
        under_way: its newest pass has not come to its end.
        evaluates: a DDP model was called without gradients on what it gave.
        dataset: which of the rank's datasets it reads, counted from 0 in the order of their first use.
        dealt: how many samples its sampler gives in one pass; -1 where it does not say.
        batching: the name of the class that makes batches of the sampler's numbers.
        has_workers: worker processes load its rows.
        kept_workers: its worker processes stay alive between two passes.
        picked: a checksum of the numbers that a Subset has picked; None where the dataset is none.
        numbered: names that the dataset numbers, in the order of their numbers, by its attribute (`class_to_idx`).
        draws: by generator, what its first worker, or the rank itself, drew for each of its first batches.
    """

    number: int
    sampler: str
    shuffles: bool
    samples: int
    trains: bool = False
    share: tuple[int, ...] = ()
    epochs: list[EpochNotes] = field(default_factory=list)
    evaluates: bool = False
    dataset: int = 0
    dealt: int = -1
    batching: str = ""
    has_workers: bool = False
    kept_workers: bool = False
    picked: int | None = None
    numbered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    draws: dict[str, list[Draw]] = field(default_factory=dict)
    passes: int = 0
    length: int = 0
    has_more: bool = False
    under_way: bool = False


@dataclass(frozen=True)
class WeightCheck:
    """The parameters and buffers of a DDP model before a step; step -1 is the end of the run.

    Attributes:
        model: its number.
        managed: DDP synchronises the buffers.
        late: parameters that require a gradient and are not among those that DDP manages.
        thawed: those of them that the model had when it was wrapped, and that required none then.
    """

    model: int
    step: int
    parameters: Mapping[str, Digest]
    buffers: Mapping[str, Digest]
    managed: bool
    late: tuple[str, ...] = ()
    thawed: tuple[str, ...] = ()


@dataclass(frozen=True)
class GradientCheck:
    """The gradients an optimizer is about to use, by `0:weight` (the model's number, the parameter's name).

    Attributes:
        reduced: what DDP had left of the gradients, as far as it is known.
        settings: the numbers among the optimizer's options, group by group.
    """

    step: int
    gradients: Mapping[str, Digest]
    reduced: Mapping[str, Digest]
    settings: tuple[Mapping[str, float | bool], ...] = ()


@dataclass(frozen=True)
class OutsideCheck:
    """The parameters of no DDP model, before an optimizer steps them; step -1 is the end of the run.

    Attributes:
        optimizer: its number.
        beside_ddp: it steps parameters of DDP models, too.
        settings: the numbers among its options, group by group.
    """

    optimizer: int
    step: int
    beside_ddp: bool
    parameters: tuple[OutsideParameter, ...]
    settings: tuple[Mapping[str, float | bool], ...] = ()


@dataclass(frozen=True)
class ScheduleNotes:
    """A learning rate schedule that ends, or that waits for a plateau.

    Attributes:
        name: of its class.
        length: for how many steps it was made; of one that waits for a plateau, its patience.
        steps: how many it has made.
        optimizer_steps: how many its optimizer had made by then.
        where: the learner's line at which it was made; of one that waits for a plateau, at which it was first stepped.
        visits: between how many steps of its optimizer it was stepped.
        stepped_from: the learner's lines on the way to its steps, the innermost first.
        rate: the newest learning rate of the optimizer's first group.
    """

    name: str
    length: int
    steps: int
    optimizer_steps: int
    where: str
    visits: int = 0
    stepped_from: tuple[Spot, ...] = field(default=(), compare=False)
    rate: float = field(default=0.0, compare=False)


@dataclass
class DrawNotes:
    """The random numbers that a script draws between the forward passes of DDP models.

    Attributes:
        draws: by generator (`torch`, `numpy.random`), before the second pass and the next ones.
        seeded_at: the learner's line that has seeded torch's generator last.
    """

    draws: dict[str, list[Draw]] = field(default_factory=dict)
    seeded_at: str = ""


@dataclass
class GraphNotes:
    """Autograd's nodes that were alive before steps 4, 8 and 12, and the variable that held most of the last ones."""

    nodes: list[int] = field(default_factory=list)
    held_by: str = ""


@dataclass
class FileNotes:
    """The files of a rank, by path, with the learner's line.

    Attributes:
        saved: written with `torch.save`, the first ones, and where first. written: opened to be written, likewise.
        read: opened to be read, the newest ones, and where last.
    """

    saved: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)


class Span(NamedTuple):
    """A second or more of training, from one optimizer step to a later one, and what the main thread did in it.

    Attributes:
        steps: the optimizers' steps that ended in it.
        waiting: seconds in which it waited for other ranks.
        loading: seconds in which it was in a DataLoader, its own time and that of its workers.
        asleep: seconds in which it slept elsewhere.
        starved: seconds in which it could have run, and had no core.
        moved: bytes that the rank has sent and received.
    """

    seconds: float
    steps: int
    waiting: float
    loading: float
    asleep: float
    starved: float
    moved: int


class ReducedMetric(NamedTuple):
    """Numbers of a rank's that all ranks add up at a line, after an evaluation of so many rows with this loader."""

    where: str
    loader: int
    rows: int
    numbers: tuple[float, ...]


class NothingLoaded(NamedTuple):
    """A state dict of which `load_state_dict(strict=False)` at a line of the learner's has loaded nothing.

    All names of one side, the model's (`of_model`) or the state dict's, begin with `prefix`; `name` is one without it.
    """

    where: str
    prefix: str
    name: str
    of_model: bool


@dataclass(frozen=True)
class WaitingShare:
    """Seconds that were watched, and what the rank's main thread did in them.

    Attributes:
        share: of these seconds, in which it waited for other ranks.
        spans: what it did between steps, from the first one on.
        line, at_line: the learner's line at which it was most often in these spans without waiting for other ranks, and
            the share of their time.
    """

    seconds: float = 0.0
    share: float = 0.0
    spans: list[Span] = field(default_factory=list)
    line: str = ""
    at_line: float = 0.0


@dataclass
class ProbeNotes:
    """Everything that one rank's probe has noted.

    Attributes:
        bare_backwards: backward passes that no DDP model saw.
        no_sync_steps: steps after `no_sync()` alone.
        failures: of passes, also those that the script has caught.
        closures: by step, how many backward passes an optimizer's step has made itself (its closure); the newest.
        stepping: the step that an optimizer is in; -1 where it is in none.
        made_before: by optimizer of DDP models, the steps that its state counts before its first one; -1 for no count.
        unseen: what could not be looked at, and the first reason for it.
        messages: from one rank to another.
        rooted: by group, the newest collectives with a root.
        strange: the lines of calls for a group that the rank is not in.
        gathered_at: the line of the first collective that fills new tensors from ones that require a gradient.
        threads: with how many the rank's main thread computes; 0 where no optimizer has stepped.
        cores: on how many it may run.
        schedules: of the learning rate.
        draws: of random numbers.
        files: of checkpoints.
        graphs: of autograd.
        metrics: that are added up over all ranks.
        nothing_loaded: state dicts that fit no name of the model.
        clipped_scaled_at: the line at which gradients were clipped with a GradScaler's scale in them.
        clipped_apart_at: the line at which they were clipped under no_sync(), before a pass that adds to them.
        groups: the members of groups that are gone, by name.
    """

    counts: Counts
    bare_backwards: int = 0
    no_sync_steps: int = 0
    failures: list[Failure] = field(default_factory=list)
    closures: dict[int, int] = field(default_factory=dict)
    stepping: int = -1
    made_before: list[int] = field(default_factory=list)
    unseen: dict[str, str] = field(default_factory=dict)
    models: list[ModelNotes] = field(default_factory=list)
    calls: Calls = field(default_factory=Calls)
    loaders: list[LoaderNotes] = field(default_factory=list)
    weights: list[WeightCheck] = field(default_factory=list)
    gradients: list[GradientCheck] = field(default_factory=list)
    outside: list[OutsideCheck] = field(default_factory=list)
    waiting: WaitingShare = field(default_factory=WaitingShare)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    messages: int = 0
    rooted: dict[str, list[RootedCall]] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    gathered_at: str = ""
    threads: int = 0
    cores: int = 0
    schedules: list[ScheduleNotes] = field(default_factory=list)
    draws: DrawNotes = field(default_factory=DrawNotes)
    files: FileNotes = field(default_factory=FileNotes)
    graphs: GraphNotes = field(default_factory=GraphNotes)
    metrics: list[ReducedMetric] = field(default_factory=list)
    nothing_loaded: list[NothingLoaded] = field(default_factory=list)
    clipped_scaled_at: str = ""
    clipped_apart_at: str = ""
