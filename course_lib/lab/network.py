"""Lesson 04: DDP's buckets on a network of chosen latency and bandwidth, and how long a step takes for each cap.

`Network` carries the buckets of a DDP model on real ranks: its communication hook issues the real all-reduce, and hands
the result to DDP only when a network with this latency and bandwidth would have delivered it. `sixteen_layers` makes
a model whose backward takes a chosen time per layer. Both sleep instead of working, so neither needs a core, and
a small machine shows what a cluster does. What can be computed of such a step is in `computed_step`, beside what was
measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from course_lib.lab.explorer import Explorer, in_turn
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Cell, Drawing, Text, grid
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.futures import Future
    from torch.nn.parallel import DistributedDataParallel

#: The caps that are compared; None is DDP's default: 1 MiB for the first bucket, 25 for the others.
CAPS: tuple[float | None, ...] = (0.5, 1, 2, 4, 25, None)
#: The model: so many layers, of so many MiB each, whose backward takes so many seconds each.
LAYERS, LAYER_MIB, LAYER_SECONDS = 16, 0.5, 0.005
_MIB = 2**20
#: A measured step that is so many times as long as the computed one was measured on a busy machine.
_BUSY = 1.3


@dataclass(frozen=True)
class Model:
    """A model as a step's arithmetic sees it: tensors of the same size, ready one after the other.

    Attributes:
        tensors: how many gradients it has. mib: MiB of all of them. seconds: how long its backward takes.
    """

    tensors: int = LAYERS
    mib: float = LAYERS * LAYER_MIB
    seconds: float = LAYERS * LAYER_SECONDS


#: The model of the lesson's runs.
TOY = Model()
#: Models of real sizes, float32; the times of their backward are guesses for one fast GPU.
MODELS = {
    "ResNet-50 (97 MiB, backward 60 ms)": Model(160, 97, 0.060),
    "GPT-2 (475 MiB, backward 120 ms)": Model(148, 475, 0.120),
}


def at_pace(layer: float) -> Model:
    """Return the model of the lesson's runs with so many seconds per layer."""
    return Model(seconds=LAYERS * layer)


@dataclass(frozen=True)
class Step:
    """One backward on one rank; times are seconds since it began.

    Attributes:
        ready: when each layer's gradient was computed.
        sent: begin and end of each message on the network.
        seconds: when `backward()` returned.
    """

    ready: tuple[float, ...]
    sent: tuple[tuple[float, float], ...]
    seconds: float


@dataclass(frozen=True)
class Network:
    """A network between the ranks.

    Attributes:
        latency: seconds that each message takes, however small it is.
        bandwidth: MiB per second that it carries, one message after the other.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if self.latency < 0 or self.bandwidth <= 0:
            raise ValueError("a network has a latency of at least 0 s and a bandwidth above 0 MiB/s")

    def seconds(self, mib: float) -> float:
        """Return the seconds that one message takes."""
        return self.latency + mib / self.bandwidth

    def steps(self, ddp: DistributedDataParallel, count: int = 2) -> list[Step]:
        """Let this network carry the model's buckets from now on, and run so many steps after DDP's rebuild."""
        import torch

        wire = _Wire(self, ddp.process_group)
        # No annotations in sight: DDP compares them with its own classes, and these are strings.
        ddp.register_comm_hook(wire, lambda wire, bucket: wire.send(bucket))
        pace: _Pace = ddp.module.pace
        inputs = torch.ones(1, ddp.module[0].in_features, device=next(ddp.parameters()).device)
        found = []
        for step in range(1 + count):
            output = ddp(inputs).sum()
            torch.distributed.barrier(ddp.process_group)
            wire.begin(open_wide=step == 0)
            began = pace.begin(resting=step == 0)
            output.backward()
            ended = time.perf_counter()
            sent = tuple((start - began, end - began) for start, end in wire.sent)
            found.append(Step(tuple(at - began for at in pace.ready), sent, ended - began))
        return found[1:]

    def fastest_step(self, ddp: DistributedDataParallel, count: int = 3) -> Step:
        """Return the shortest of some steps: what is measured on a busy machine is never too short."""
        return min(self.steps(ddp, count), key=lambda step: step.seconds)


#: Networks of real sizes, by name.
NETWORKS = {
    "100 GbE: 50 us, 10 GiB/s": Network(50e-6, 10 * 1024),
    "inside a machine: 20 us, 150 GiB/s": Network(20e-6, 150 * 1024),
    "10 GbE: 100 us, 1 GiB/s": Network(100e-6, 1024),
    "a ring of very many ranks: 1 ms, 10 GiB/s": Network(1e-3, 10 * 1024),
}


def sixteen_layers(seconds: float = LAYER_SECONDS, wide: int = 512) -> nn.Sequential:
    """Make layers of 0.5 MiB whose backward takes so many seconds each, asleep, as while a GPU computes.

    Args:
        seconds: of one layer.
        wide: the longer side of a layer's weight; half of it makes layers of a quarter of the bytes.
    """
    import torch

    torch.manual_seed(0)
    narrow = wide // 2
    shapes = [(narrow, wide) if number % 2 else (wide, narrow) for number in range(LAYERS)]
    model = torch.nn.Sequential(*(torch.nn.Linear(*shape, bias=False) for shape in shapes))
    pace = _Pace(seconds)
    for layer in model:
        layer.register_forward_hook(pace.follow)
    model.pace = pace  # type: ignore[assignment]  # not a module: nobody trains or saves it
    return model


class _Pace:
    """Holds the backward back: the k-th layer is not done before k times the seconds of a layer have passed.

    Moments are counted from the beginning, so a sleep that is too long does not make all later ones late.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = 0.0
        self._resting = True
        self.ready: list[float] = []

    def begin(self, *, resting: bool) -> float:
        """Begin a backward; `resting`, it is not held back."""
        self._resting, self.ready = resting, []
        self._began = time.perf_counter()
        return self._began

    def follow(self, layer: nn.Module, inputs: object, output: torch.Tensor) -> None:
        """Delay the gradient that comes back to this layer, and note when it does (a forward hook)."""
        output.register_hook(self._wait)

    def _wait(self, gradient: torch.Tensor) -> None:
        if not self._resting:
            _sleep_until(self._began + (len(self.ready) + 1) * self._seconds)
        self.ready.append(time.perf_counter())


@dataclass
class _Wire:
    """A network that carries one model's buckets on one rank: one message after the other."""

    network: Network
    group: torch.distributed.ProcessGroup | None = None
    sent: list[tuple[float, float]] = field(default_factory=list)
    _open_wide: bool = True

    def begin(self, *, open_wide: bool) -> None:
        """Begin a step; `open_wide`, the network takes no time."""
        self.sent, self._open_wide = [], open_wide

    def send(self, bucket: torch.distributed.GradBucket) -> Future[torch.Tensor]:
        """Do what DDP would do (`allreduce_hook`), delivered when the network is through (a communication hook)."""
        return self.carry(bucket.buffer())

    def carry(self, buffer: torch.Tensor) -> Future[torch.Tensor]:
        """Put the mean over the ranks in this tensor's place, when the network is through."""
        import torch.distributed as dist
        from torch.futures import Future

        buffer.div_(dist.get_world_size(self.group))
        work = dist.all_reduce(buffer, group=self.group, async_op=True)
        done: Future[torch.Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)

        def deliver() -> None:
            try:
                if work is not None:
                    work.wait()
            except Exception as error:  # else DDP would wait for ever
                done.set_exception(error)  # type: ignore[arg-type]  # typed as the result
            else:
                done.set_result(buffer)

        now = time.perf_counter()
        start = max([now, *(end for _, end in self.sent[-1:])])
        end = now if self._open_wide else start + self.network.seconds(buffer.nbytes / _MIB)
        self.sent.append((start, end))
        threading.Timer(end - now, deliver).start()
        return done


def _sleep_until(moment: float) -> None:
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(left)


# -- computed -----------------------------------------------------------------------------------------------------


def buckets_of(cap: float | None, model: Model = TOY) -> list[int]:
    """Return the number of tensors in each bucket, closed once it reaches its cap (`None`: 1 MiB, then 25)."""
    limits = [1.0, 25.0] if cap is None else [cap]
    found = [0]
    for _ in range(model.tensors):
        if found[-1] * model.mib / model.tensors >= limits[min(len(found), len(limits)) - 1]:
            found.append(0)
        found[-1] += 1
    return found


def computed_step(cap: float | None, network: Network, model: Model = TOY) -> Step:
    """Compute the step that takes only the time of the backward and of the network.

    A bucket leaves when its last gradient is there and the network is free; `backward()` returns when the last one
    has arrived.
    """
    return _computed(buckets_of(cap, model), network, model)


def _computed(buckets: Sequence[int], network: Network, model: Model, *, after: bool = False) -> Step:
    ready = tuple(model.seconds / model.tensors * (number + 1) for number in range(model.tensors))
    sent: list[tuple[float, float]] = []
    done, free = 0, ready[-1] if after else 0.0
    for count in buckets:
        done += count
        start = max(ready[done - 1], free)
        free = start + network.seconds(count * model.mib / model.tensors)
        sent.append((start, free))
    return Step(ready, tuple(sent), max(ready[-1], free))


def against_default(cap: float, network: Network, model: Model) -> float:
    """Return the share by which a computed step with this cap is longer than one with DDP's default."""
    return computed_step(cap, network, model).seconds / computed_step(None, network, model).seconds - 1


# -- by hand ------------------------------------------------------------------------------------------------------

#: The lesson's four ways to average by hand: after backward or in hooks, and how many tensors travel together.
_WAYS = {
    "one by one": (True, 1),
    "one flat buffer": (True, LAYERS),
    "hooks": (False, 1),
    "buckets": (False, 4),
}


def steps_by_hand(network: Network) -> dict[str, Step]:
    """Measure one step of each way to average by hand, the shorter one of two; runs on every rank."""
    return {
        name: min((_step_by_hand(network, *way) for _ in range(2)), key=lambda step: step.seconds)
        for name, way in _WAYS.items()
    }


def _step_by_hand(network: Network, after: bool, together: int) -> Step:
    import torch

    model, wire = sixteen_layers(), _Wire(network)
    pace: _Pace = model.pace  # type: ignore[assignment]  # not a module
    parameters = list(reversed(list(model.parameters())))
    collected: list[torch.Tensor] = []
    under_way: list[Future[torch.Tensor]] = []

    def collect(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        collected.append(parameter.grad.flatten())
        if len(collected) == together:
            under_way.append(wire.carry(torch.cat(collected)))
            collected.clear()

    output = model(torch.ones(1, 512)).sum()
    if not after:
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(collect)
    torch.distributed.barrier()
    wire.begin(open_wide=False)
    began = pace.begin(resting=False)
    output.backward()
    if after:
        for parameter in parameters:
            collect(parameter)
    for future in under_way:
        future.wait()
    ended = time.perf_counter()
    sent = tuple((start - began, end - began) for start, end in wire.sent)
    return Step(tuple(at - began for at in pace.ready), sent, ended - began)


def draw_by_hand(network: Network) -> Drawing:
    """Draw a row for each way to average by hand, as two new real ranks ran it on this network."""
    measured: dict[str, Step] = run_quietly(steps_by_hand, network, ranks=2).values[0]
    computed = {
        name: _computed([together] * (LAYERS // together), network, TOY, after=after)
        for name, (after, together) in _WAYS.items()
    }
    return _drawn(measured, computed, "way to average", network, TOY)


# -- measured -----------------------------------------------------------------------------------------------------


def one_step(caps: Sequence[float | None], network: Network, layer: float) -> list[Step]:
    """Return for each cap the shorter one of two steps; runs on every rank."""
    from torch.nn.parallel import DistributedDataParallel

    found = []
    for cap in caps:
        ddp = DistributedDataParallel(sixteen_layers(layer), bucket_cap_mb=cap)
        found.append(network.fastest_step(ddp, 2))
    return found


def measured_steps(
    caps: Sequence[float | None], network: Network, layer: float = LAYER_SECONDS
) -> dict[float | None, Step]:
    """Return a step for each cap as rank 0 of two new real ranks has seen it."""
    outcome = run_quietly(one_step, list(caps), network, layer, ranks=2)
    return dict(zip(caps, outcome.values[0], strict=True))


def fastest(cap: float) -> Callable[[Outcome], bool]:
    """Predict that this cap has the shortest step in the cell's `steps`."""

    def is_fastest(outcome: Outcome) -> bool:
        by_rank = outcome["steps"].values()
        slowest = {one: max(steps[one].seconds for steps in by_rank) for one in next(iter(by_rank))}
        return bool(min(slowest, key=lambda one: slowest[one]) == cap)

    return is_fastest


# -- drawn --------------------------------------------------------------------------------------------------------

_LEFT, _RIGHT, _WIDTH, _BAR, _ROW = 176, 118, 760, 15, 44


def cap_in_words(cap: float | None) -> str:
    """Return the cap as a call writes it; the default says so."""
    return "default" if cap is None else f"{cap:g}"


def draw_caps(measured: Mapping[float | None, Step], network: Network, model: Model = TOY) -> Drawing:
    """Draw a row per cap: the backward above, the messages below it, and when `backward()` returned.

    The dashed line is where `computed_step` has it. The title names the shortest, or says that the machine was busy.
    """
    computed = {cap_in_words(cap): computed_step(cap, network, model) for cap in measured}
    steps = {cap_in_words(cap): step for cap, step in measured.items()}
    return _drawn(steps, computed, "bucket_cap_mb", network, model)


def draw_computed(caps: Sequence[float | None], network: Network, model: Model = TOY) -> Drawing:
    """Draw computed steps only: at once, and the same on every machine."""
    computed = {cap_in_words(cap): computed_step(cap, network, model) for cap in caps}
    return _drawn(computed, computed, "bucket_cap_mb", network, model)


def draw_against_default() -> Drawing:
    """Draw for models and networks of real sizes by how much a computed step exceeds DDP's default."""
    caps = (0.5, 4, 25, 100)
    places = [(model, network) for model in MODELS for network in NETWORKS]
    cells, texts = {}, []
    for row, (model, network) in enumerate(places):
        for column, cap in enumerate(caps):
            share = 100 * against_default(cap, NETWORKS[network], MODELS[model])
            look = "bad" if share >= 1 else "sum" if share <= -1 else "plain"
            cells[row, column] = Cell(look, f"{share:+.{int(share < 100)}f} %")
            texts.append(f"{model}, {network}, {cap:g}: {share:+.1f} %")
    most = max(abs(against_default(25, NETWORKS[network], MODELS[model])) for model, network in places)
    return grid(
        [f"{model.partition(' (')[0]}; {network}" for model, network in places],
        [f"{cap:g}" for cap in caps],
        cells,
        title=f"25 and the default differ by at most {100 * most:.1f} %",
        alt="; ".join(texts),
        axis="bucket_cap_mb; step time against the default, computed",
    )


def estimate(parameters: float, tensors: int, backward_ms: float, network: Network) -> Drawing:
    """Compute what the gradients of your own model cost on a network.

    Args:
        parameters: how many numbers it has; each gradient has 4 bytes.
        tensors: in how many tensors.
        backward_ms: how long its backward takes on one GPU.
        network: see `NETWORKS`.
    """
    return draw_computed((1, 4, None, 100), network, Model(tensors, 4 * parameters / _MIB, backward_ms / 1e3))


def _title(steps: Mapping[str, Step], computed: Mapping[str, Step], model: Model) -> str:
    if any(step.seconds > _BUSY * computed[name].seconds for name, step in steps.items()):
        return "This machine is busy: steps are much longer than computed. Run the cell again."
    shortest = min(steps, key=lambda name: steps[name].seconds)
    if steps is not computed:
        return f"The shortest of these steps: {shortest}"
    waited = 1e3 * (steps[shortest].seconds - model.seconds)
    return f"Computed, {model.mib:.0f} MiB: with {shortest}, {waited:.1f} ms are waited for"


def _drawn(
    steps: Mapping[str, Step],
    computed: Mapping[str, Step],
    names: str,
    network: Network,
    model: Model,
) -> Drawing:
    said = {
        name: f"{1e3 * step.seconds:.0f} ms"
        + (f" ({1e3 * computed[name].seconds:.0f})" if steps is not computed else "")
        for name, step in steps.items()
    }
    heading = "computed" if steps is computed else "measured (computed)"
    longest = max(step.seconds for step in (*steps.values(), *computed.values()))
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    shortest = min(steps, key=lambda name: steps[name].seconds)
    shapes: list[Shape] = [
        Text(_LEFT - 10, 14, names, 12, "end", mono=True),
        Text(_WIDTH - 8, 14, heading, 12, "end", faint=True),
    ]
    for place, (name, step) in enumerate(steps.items()):
        top = 22 + place * _ROW
        count = len(step.sent)
        shapes += [
            Text(_LEFT - 10, top + 13, name, 13, "end", bold=name == shortest),
            Text(
                _LEFT - 10, top + 28, f"{count} all-reduce{'s' if count > 1 else ''}", 11, "end", faint=True
            ),
            *_row(step, top, scale),
        ]
        end = _LEFT + computed[name].seconds * scale
        shapes.append(Arrow(end, top - 4, end, top + 2 * _BAR + 6, 1.5, dashed=True, plain=True))
        shapes.append(Text(_WIDTH - 8, top + 13, said[name], 12, "end", bold=name == shortest))
        if name == shortest:
            shapes.append(Text(_WIDTH - 8, top + 28, "the shortest", 11, "end"))
    bottom = 22 + len(steps) * _ROW
    shapes += [
        Box(_LEFT, bottom, 20, 12, "backward", edge=0.5),
        Text(_LEFT + 26, bottom + 10, f"backward of {model.tensors} layers", 12),
        Box(_LEFT + 176, bottom, 20, 12, "communication", edge=0.5),
        Text(_LEFT + 202, bottom + 10, "all-reduces on the network", 12),
        Arrow(_LEFT + 386, bottom - 1, _LEFT + 386, bottom + 14, 1.5, dashed=True, plain=True),
        Text(_LEFT + 394, bottom + 10, "backward() returns, computed", 12),
    ]
    return Drawing(
        _WIDTH,
        bottom + 22,
        tuple(shapes),
        f"A row for each {names} of {', '.join(steps)}: the backward of {model.tensors} layers, below it "
        "the all-reduces on the network, one after the other, and a dashed line where the computed step ends. The "
        "more messages there are, "
        "the earlier the first one leaves, and the more often the latency is paid.",
        _title(steps, computed, model),
        f"{1e3 * network.latency:g} ms, {network.bandwidth:g} MiB/s",
    )


def _row(step: Step, top: float, scale: float) -> list[Shape]:
    shapes: list[Shape] = []
    if len(step.ready) > 2 * LAYERS:
        shapes.append(Box(_LEFT, top, step.ready[-1] * scale, _BAR, "backward", edge=0.5))
    else:
        for number, (start, end) in enumerate(zip((0.0, *step.ready), step.ready, strict=False)):
            hint = f"layer {len(step.ready) - number}, ready after {1e3 * end:.1f} ms"
            shapes.append(
                Box(_LEFT + start * scale, top, (end - start) * scale, _BAR, "backward", "", hint, edge=0.5)
            )
    for number, (start, end) in enumerate(step.sent):
        hint = f"bucket {number}, {1e3 * (end - start):.1f} ms"
        place = (_LEFT + start * scale, top + _BAR + 2, (end - start) * scale, _BAR)
        shapes.append(Box(*place, "communication", str(number), hint, edge=0.5, size=11))
    return shapes


class CapsExplorer(Explorer):
    """Choose a model, a network, the pace of the backward and a cap of your own.

    What is computed is drawn at once. Then every row of the lesson's own model on the network of the sliders is a run
    on two real ranks; models and networks of real sizes are computed only.
    """

    controls = "model, network, latency, bandwidth, backward, bucket_cap_mb"
    TOY, SLIDERS = "the lesson's (8 MiB), run on two ranks", "that of the sliders"

    def __init__(self) -> None:
        import ipywidgets as widgets

        wide = {
            "layout": {"width": "32em"},
            "style": {"description_width": "14em"},
            "continuous_update": False,
        }
        choose = {"layout": wide["layout"], "style": wide["style"]}
        self.model = widgets.Dropdown(options=[self.TOY, *MODELS], description="model", **choose)
        self.carrier = widgets.Dropdown(options=[self.SLIDERS, *NETWORKS], description="network", **choose)
        self.latency = widgets.IntSlider(8, 0, 20, description="latency (ms)", **wide)
        self.bandwidth = widgets.SelectionSlider(
            options=[25, 50, 100, 200, 400, 1000], value=100, description="bandwidth (MiB per s)", **wide
        )
        self.layer = widgets.IntSlider(5, 1, 10, description="backward (ms per layer)", **wide)
        self.cap = widgets.FloatSlider(3, min=0.5, max=8, step=0.5, description="your bucket_cap_mb", **wide)
        self.status = widgets.HTML("<i>Computed. Move a slider, and two ranks measure it.</i>")
        self.static = self._computed()
        self.picture = widgets.HTML(self.static.svg())
        controls = (self.model, self.carrier, self.latency, self.bandwidth, self.layer, self.cap)
        for control in controls:
            control.observe(self._run_and_draw, names="value")
        self.whole = widgets.VBox([*controls, self.status, self.picture])
        self._kept: dict[tuple[Network, float], dict[float | None, Step]] = {}

    @property
    def network(self) -> Network:
        """The chosen network."""
        by_sliders = Network(1e-3 * self.latency.value, self.bandwidth.value)
        return NETWORKS.get(self.carrier.value, by_sliders)

    @property
    def caps(self) -> list[float | None]:
        """The usual ones and the learner's, from the smallest on; the default comes last."""
        return [*sorted({self.cap.value, *(cap for cap in CAPS if cap is not None)}), None]

    @property
    def found(self) -> dict[float | None, Step]:
        """The steps measured on this network at this pace, by cap."""
        return self._kept.setdefault((self.network, self.layer.value), {})

    def _computed(self) -> Drawing:
        """Draw what there is to see before anything has run."""
        model = MODELS.get(self.model.value, at_pace(1e-3 * self.layer.value))
        return draw_computed(self.caps, self.network, model)

    @in_turn
    def _run_and_draw(self, _: object) -> None:
        if (self.model.value, self.carrier.value) != (self.TOY, self.SLIDERS):
            self.status.value = "<i>Computed only: this machine has no such model, or no such network.</i>"
            self.picture.value = self._computed().svg()
            return
        network, layer, found = self.network, 1e-3 * self.layer.value, self.found
        if missing := [cap for cap in self.caps if cap not in found]:
            self.status.value = "<i>Computed. Two ranks are running ...</i>"
            self.picture.value = self._computed().svg()
            found.update(measured_steps(missing, network, layer))
        rows = {cap: found[cap] for cap in self.caps}
        self.picture.value = draw_caps(rows, network, at_pace(layer)).svg()
        self.status.value = "<i>Measured: every row is a run on two ranks.</i>"


def explore_caps() -> CapsExplorer:
    """Return the controls and the picture, to be the last line of a cell."""
    return CapsExplorer()
