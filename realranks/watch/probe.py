"""A record of a script's use of DDP, kept on the rank while it runs: steps, batches, weights, and caught errors.

When it is told what is in `patches`, and for how long it notes in `watching`. It issues no collective of its own: what
is noted on each rank is compared afterwards, by the doctor.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from realranks.outcome.probe_notes import (
    Counts,
    Digest,
    Failure,
    ModelCall,
    ModelNotes,
    ProbeNotes,
)
from realranks.ranks.inside import groups
from realranks.ranks.inside.wrapped import managed, remember, wrapped_model
from realranks.watch.copies import checksum, copies_of, is_copy
from realranks.watch.dynamo import passed_over
from realranks.watch.gathered import Gathered
from realranks.watch.graphs import Graphs
from realranks.watch.guard import Unseen, guarded
from realranks.watch.lines import learners_line
from realranks.watch.loaders import Loaders
from realranks.watch.optimizers import Optimizers, is_inner_step, steps_around
from realranks.watch.random_draws import RandomDraws
from realranks.watch.waiting import WaitingClock
from realranks.watch.weights import (
    CheckPlan,
    gradient_check,
    input_digest,
    outside_check,
    reduced_gradients,
    weight_check,
)
from realranks.watch.worker_draws import WorkerDraws

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed import ProcessGroup
    from torch.nn import Parameter
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

#: The gradients of a model, so that a change is seen without looking at a value.
Gradients = list[tuple[int, int] | None]

_MAX_EVENTS = 20
#: Parameters without a gradient that are named.
_MAX_NAMES = 400
#: Calls of DDP models whose order is reported, and steps whose closures are: the newest.
_MAX_CALLS = 100
#: Failures whose model is reported, the first.
_MAX_FAILED_MODELS = 3
#: Steps between two evaluations after which copies of the weights are looked at, at least.
_BETWEEN_EVALUATIONS = 8


@dataclass(kw_only=True)
class Model(ModelNotes):
    """One DDP wrapper: what is sent of it, and what it takes to note that."""

    wrapper: weakref.ref[DistributedDataParallel]
    #: The parameters that required no gradient when DDP took those that it manages.
    frozen: list[weakref.ref[Parameter]] = field(default_factory=list)
    #: All names of `never`, None before the first backward pass; and those that a collective like all_gather was fed.
    ungraded: set[str] | None = None
    gathered: set[str] = field(default_factory=set)
    in_evaluation: bool | None = None  # all forward passes since the last backward pass
    #: How often each parameter had been changed in place, after its optimizer's last step.
    versions: tuple[int, ...] = ()
    since: int = 0  # forward passes since the last backward pass that reached it
    pending: bool = False
    prepared: bool = False  # DDP's reducer, since the last call: it reduces what a backward pass adds
    inside: bool = False
    no_sync: bool = False
    #: The line that has clipped what a pass under no_sync() has left, and the gradients then.
    clipped: tuple[str, Gradients] | None = None
    #: The copies that were there before the first step.
    known_copies: list[weakref.ref[nn.Module]] = field(default_factory=list)
    #: What the last backward pass has left, where that was noted.
    reduced: dict[str, Digest] = field(default_factory=dict)

    def note(self, event: str) -> None:
        """Remember the learner's line at which this happened last."""
        self.events[event] = learners_line()

    def managed(self) -> list[Parameter]:
        """Return the parameters that DDP manages."""
        wrapper = self.wrapper()
        return list(managed(wrapper)) if wrapper is not None else []

    def gradients(self) -> Gradients:
        """Return which gradients the parameters that DDP manages have."""
        grads = [p.grad for p in self.managed()]
        return [None if grad is None else (id(grad), grad._version) for grad in grads]

    def note_change(self, step: int) -> None:
        """Remember that other code than an optimizer's has changed its weights before this step."""
        self.touched.append(step)
        del self.touched[:-_MAX_EVENTS]

    def note_gradients(self, parameters: int, without: Mapping[str, Tensor], gathered: Gathered) -> None:
        """Note which of its parameters have no gradient after a backward pass."""
        self.parameters = parameters
        self.without_gradient = tuple(without)[:_MAX_EVENTS]
        self.gathered |= {name for name, parameter in without.items() if gathered.fed_by(parameter)}
        self.ungraded = set(without) if self.ungraded is None else self.ungraded & set(without)
        self.never = tuple(sorted(self.ungraded)[:_MAX_NAMES])
        self.cut = tuple(sorted(self.gathered & self.ungraded)[:_MAX_NAMES])


@dataclass
class Pass:
    """A backward pass under way: the models that wait for it, and what the gradients of all of them were before.

    Nested where another backward pass has run within it.
    """

    pending: list[Model]
    before: dict[int, Gradients]
    nested: bool = False


@dataclass
class Probe:
    """All that is noted on this rank: `notes` is what is sent, the rest what it takes to note that."""

    plan: CheckPlan
    unseen: Unseen = field(default_factory=Unseen)
    notes: ProbeNotes = field(init=False)
    models: list[Model] = field(default_factory=list)
    loaders: Loaders = field(init=False)
    optimizers: Optimizers = field(default_factory=Optimizers)
    gathered: Gathered = field(init=False)
    draws: RandomDraws = field(init=False)
    workers: WorkerDraws = field(init=False)
    graphs: Graphs = field(init=False)
    touched_at: int = -1
    checked_at: set[tuple[int, int]] = field(default_factory=set)
    clock: WaitingClock = field(init=False)
    kept: list[ProcessGroup] = field(default_factory=list)
    hooks: list[RemovableHandle] = field(default_factory=list)
    under_way: Pass | None = None

    def __post_init__(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0
        self.notes = ProbeNotes(Counts(), unseen=self.unseen, cores=cores)
        copies = guarded(self, self.unseen, "copies of the weights")
        self.loaders, self.gathered = Loaders(self.notes, copies.looked_at_copies), Gathered(self.notes)
        self.workers = WorkerDraws(self.notes, self.loaders)
        self.draws, self.graphs = RandomDraws(self.notes), Graphs(self.notes)
        self.clock = WaitingClock(self.unseen, self.notes.counts)

    @property
    def steps(self) -> int:
        """Steps that all optimizers have made."""
        return self.notes.counts.steps

    def progress(self) -> int:
        """Return a number that grows while the script makes progress."""
        counts = self.notes.counts
        return counts.steps + counts.backwards + self.notes.bare_backwards + counts.batches

    def to_record(self) -> ProbeNotes:
        """Return everything recorded; also called by the control thread while the rank is blocked."""
        self.notes.waiting = self.clock.to_record()
        guarded(self.workers, self.unseen, "random numbers of loaders").collect()
        return self.notes

    # -- what is noted, and when --------------------------------------------------------------------------------

    def built(self, wrapper: DistributedDataParallel, found: bool = False) -> None:
        """Record a DDP wrapper that was made, or (`found`) was there before the probe."""
        import torch.distributed as dist

        model = Model(
            number=len(self.models),
            wrapper=weakref.ref(wrapper),
            found=found,
            type=type(wrapper.module).__name__,
        )
        self.models.append(model)
        self.notes.models.append(model)
        self.hook(wrapper)
        model.ranks = tuple(dist.get_process_group_ranks(wrapper.process_group))
        remember(wrapper)
        if not found:
            model.frozen = [weakref.ref(p) for p in wrapper.module.parameters() if not p.requires_grad]
            model.versions = _versions(wrapper)
        model.has_modes = any(map(_has_modes, wrapper.module.modules()))
        model.statistics = tuple(
            f"{name}.{buffer}".lstrip(".")
            for name, module in wrapper.module.named_modules()
            if "running_mean" in dict(module.named_buffers(recurse=False))
            for buffer, _ in module.named_buffers(recurse=False)
        )

    def hook(self, wrapper: DistributedDataParallel) -> None:
        """Hear of it when the wrapped module is called; not of one that is compiled with its hooks."""
        if wrapper.module._compiled_call_impl is not None:
            return
        passed_over(_Entering.__call__, inside=True)
        self.hooks.append(wrapper.module.register_forward_pre_hook(ENTERING))

    @contextlib.contextmanager
    def unhooked(self) -> Iterator[None]:
        """Remove the hooks from the wrapped modules within this block."""
        taken, self.hooks = self.hooks, []
        for handle in taken:
            handle.remove()
        try:
            yield
        finally:
            for model in self.models:
                if (wrapper := model.wrapper()) is not None:
                    self.hook(wrapper)

    def model_of(self, wrapper: DistributedDataParallel) -> Model | None:
        """Return the record of this wrapper."""
        return next((model for model in self.models if model.wrapper() is wrapper), None)

    def forward(self, wrapper: DistributedDataParallel, arguments: object) -> Model | None:
        """Record that a DDP model is about to be called, and return its record."""
        import torch

        model = self.model_of(wrapper)
        if model is None:
            return None
        model.inside, model.prepared = True, False
        self.looked_for_changes(model, wrapper)
        if not torch.is_grad_enabled():
            model.plain_forwards += 1
            self.loaders.evaluated()
            return model
        model.forwards += 1
        self.notes.counts.forwards += 1
        model.since += 1
        model.in_evaluation = not wrapper.module.training and model.in_evaluation is not False
        model.no_sync = not wrapper.require_backward_grad_sync
        model.pending |= not model.no_sync
        calls = self.notes.calls
        calls.last.append(ModelCall(model.number, learners_line()))
        if len(calls.last) > _MAX_CALLS:
            del calls.last[0]
            calls.first += 1
        self.loaders.trained()
        guarded(self, self.unseen, "weights and inputs").looked_at(model, wrapper, arguments)
        guarded(self.draws, self.unseen, "random numbers").before(arguments)
        return model

    def looked_at(self, model: Model, wrapper: DistributedDataParallel, arguments: object) -> None:
        """Record the first inputs of a model, and its weights if they are to be compared before this pass."""
        if len(model.inputs) < 4 and (crc := input_digest(arguments)) is not None:
            model.inputs.append(crc)
        if self.due() and (model.number, self.steps) not in self.checked_at:
            self.checked_at.add((model.number, self.steps))
            self.notes.weights.append(
                weight_check(wrapper, model.number, self.steps, model.frozen, self.unseen)
            )

    def looked_for_changes(
        self, model: Model, wrapper: DistributedDataParallel, step: int | None = None
    ) -> None:
        """Have this model's weights been changed since its optimizer's last step, or since it was wrapped?"""
        found = _versions(wrapper)
        if model.versions and found != model.versions and self.notes.stepping < 0:
            model.note_change(self.steps if step is None else step)
        model.versions = found

    def prepared(self, reducer: object) -> None:
        """Record that a DDP model's reducer awaits the gradients of a backward pass."""
        for model in self.models:
            wrapper = model.wrapper()
            if wrapper is not None and wrapper.reducer is reducer:
                model.prepared = model.pending = True

    def returned(self, model: Model, output: object) -> None:
        """Record the output of a DDP model's forward; None if it raised."""
        model.inside = False
        guarded(self.draws, self.unseen, "random numbers").after()
        wrapper = model.wrapper()
        if wrapper is None or output is None or not (wrapper.static_graph or wrapper.find_unused_parameters):
            return
        model.output = "" if _tensors_found(wrapper, output) else type(output).__name__

    def due(self, step: int | None = None) -> bool:
        """Check whether to compare the weights now: by plan, or because they changed between two steps."""
        for each in self.optimizers.touched():
            self.touched_at = self.steps
            numbers = each.models([model.wrapper() for model in self.models])
            for model in self.models:
                if model.number in numbers and self.steps not in model.touched[-1:]:
                    model.note_change(self.steps)
        return self.plan.due(self.steps if step is None else step) or self.touched_at == self.steps

    def entering(self, module: nn.Module) -> None:
        """Record a wrapped module that is trained by calling it past its wrapper."""
        import torch

        if not torch.is_grad_enabled():
            self.loaders.evaluated()
            return
        for model in self.models:
            wrapper = model.wrapper()
            if wrapper is not None and wrapper.module is module and not model.inside and module.training:
                model.bypassed += 1
                model.note("bypassed")

    def backward(self) -> Pass | None:
        """Record that a backward pass begins; None for one inside another (reentrant checkpointing)."""
        if self.under_way is not None:
            self.under_way.nested = True
            return None
        # A library may call code within a model's forward that runs backward(), and prepare the reducer itself.
        pending = [model for model in self.models if model.pending and (model.prepared or not model.inside)]
        self.notes.counts.backwards += bool(pending)
        if self.notes.stepping >= 0 and not steps_around():
            self.notes.stepping = -1  # a step that has raised has not said that it is over
        if self.notes.stepping >= 0:
            self.notes.closures[self.notes.stepping] = self.notes.closures.get(self.notes.stepping, 0) + 1
            if len(self.notes.closures) > _MAX_CALLS:
                del self.notes.closures[min(self.notes.closures)]
        for model in pending:
            model.pending = False
            model.backwards += 1
            model.evaluating += model.in_evaluation is True
            model.in_evaluation = None
            wrapper = model.wrapper()
            if wrapper is not None and model.has_modes and self.plan.due(self.steps):
                model.modes[self.steps] = _in_evaluation(wrapper.module)
            # This pass adds to what was clipped, unless that has been replaced since.
            if model.clipped is not None and model.clipped[1] == model.gradients():
                self.notes.clipped_apart_at = model.clipped[0]
            model.clipped, model.reduced = None, {}
            model.note("backward")
        called = [model for model in self.models if model.forwards]
        # One model that waits for the only backward pass is what most scripts have: nothing to tell apart.
        apart = called if len(called) > 1 or not pending else []
        self.under_way = Pass(pending, {model.number: model.gradients() for model in apart})
        return self.under_way

    def reduced(self, backward_pass: Pass | None) -> None:
        """Record the end of a backward pass, and of the reduction of the gradients that it reached."""
        if backward_pass is None:
            return
        self.under_way = None
        self.find_reached_models(backward_pass)
        for model in backward_pass.pending:
            wrapper = model.wrapper()
            if wrapper is not None and not model.pending:
                taken, without = managed(wrapper), {}
                model.unheard += not getattr(wrapper, "_static_graph_delay_allreduce_enqueued", True)
                if any(p.grad is None for p in taken):
                    named = wrapper.module.named_parameters()
                    without = {name: p for name, p in named if p.requires_grad and p.grad is None}
                model.note_gradients(len(taken), without, self.gathered)
                if self.plan.due(self.steps):
                    model.reduced = reduced_gradients(wrapper, model.number, self.unseen)

    def find_reached_models(self, backward_pass: Pass) -> None:
        """Find the models this backward pass reached: one that did not wait for it does not reduce its gradients."""
        bare = False
        for model in self.models:
            before = backward_pass.before.get(model.number)
            reached = before is None or model.gradients() != before
            if model in backward_pass.pending:
                if reached:
                    model.since = 0
                else:
                    model.pending = True
                    model.backwards -= 1
            elif before is not None and reached and not model.no_sync:
                # The reducer has finished what the last forwards have begun: this pass it does not see.
                bare = True
                model.bare_backwards += 1
                model.within_forward += model.inside
                model.note("bare_backward")
        self.notes.bare_backwards += bare
        self.notes.counts.backwards -= bool(backward_pass.pending) and all(
            model.pending for model in backward_pass.pending
        )

    def step(self, optimizer: Optimizer) -> None:
        """Record that an optimizer is about to step."""
        import torch

        if is_inner_step():
            return
        for model in self.models:
            if model.no_sync and model.forwards:
                self.notes.no_sync_steps += 1
                model.no_sync_steps += 1
                model.note("no_sync_step")
        if not self.models:
            self.loaders.trained()
        own = self.optimizers.of(optimizer)
        if not self.steps:
            guarded(self, self.unseen, "copies of the weights").looked_for_copies()
        wrappers = [model.wrapper() for model in self.models]
        if not own.steps and own.models(wrappers):
            made = guarded(own, self.unseen, "states of optimizers").made_before()
            self.notes.made_before.append(made or 0)
        self.notes.stepping = self.steps
        if self.plan.due(self.steps):
            self.notes.threads = max(self.notes.threads, torch.get_num_threads())
            reduced = {name: left for model in self.models for name, left in model.reduced.items()}
            self.notes.gradients.append(gradient_check(optimizer, wrappers, self.steps, reduced, self.unseen))
        if self.due(own.steps):
            self.notes.outside.append(outside_check(optimizer, wrappers, own.number, own.steps, self.unseen))
        for model in self.models:
            if model.number in own.models(wrappers):
                model.steps += 1
                if self.under_way is None:
                    self.looked_for_unfinished(model)
                elif (
                    torch._C._current_graph_task_id() >= 0
                ):  # in a hook of a gradient, not of DDP's communication
                    model.note("step_in_backward")
        guarded(self.graphs, self.unseen, "graphs of autograd").count(self.steps)
        own.steps += 1
        self.notes.counts.steps += 1

    def stepped(self, optimizer: Optimizer) -> None:
        """Record that an optimizer has stepped."""
        if is_inner_step():
            return
        self.notes.stepping = -1
        own = self.optimizers.of(optimizer)
        own.remember()
        numbers = own.models([model.wrapper() for model in self.models])
        for model in self.models:
            wrapper = model.wrapper()
            if wrapper is not None and model.number in numbers:
                model.versions = _versions(wrapper)

    def looked_for_unfinished(self, model: Model) -> None:
        """Record that DDP still waits for gradients of a model whose optimizer is about to step.

        Not within a backward pass: DDP holds the lock meanwhile that it takes to look.
        """
        wrapper = model.wrapper()
        if wrapper is None or model.wrapped is not None or not model.backwards:
            return
        try:
            wrapper._check_reducer_finalized()
        except RuntimeError as error:
            model.unfinished, model.wrapped = str(error)[:2000], wrapped_model(wrapper)
            model.note("unfinished")

    def leaving(self) -> None:
        """Keep the connections of a process group that is about to be destroyed.

        A rank that leaves early would otherwise end its peers with an error about a lost connection; while they wait,
        they can be proved to wait for it.
        """
        self.notes.groups |= {name: tuple(ranks) for name, ranks in groups.group_members().items()}
        self.kept.extend(groups.world().pg_map)
        self.finish()  # the models may be gone when the script has ended

    def failed(self, what: str, error: BaseException, where: Model | Pass | None) -> None:
        """Record that a forward or backward pass raised: the learner's code may catch the error and continue."""
        model: Model | None
        if isinstance(where, Pass):
            # A pass that no model waits for belongs to the one that was called last.
            called = [self.models[call.model] for call in self.notes.calls.last[-1:]]
            model = next(iter(where.pending or called), None)
        else:
            model = where
        forwards = model.since if model is not None else 0
        if isinstance(where, Pass):
            self.under_way = None
            self.find_reached_models(where)
        if len(self.notes.failures) >= _MAX_EVENTS:
            return
        wrapper = model.wrapper() if model is not None else None
        self.notes.failures.append(
            Failure(
                what,
                type(error).__name__,
                learners_line(),
                str(error)[:2000],
                wrapped_model(wrapper) if wrapper and len(self.notes.failures) < _MAX_FAILED_MODELS else None,
                forwards,
                isinstance(where, Pass) and where.nested,
            )
        )

    def looked_for_copies(self) -> None:
        """Record the second copies of the models' weights that are there before the first step."""
        trained = self.trained_parameters()
        for model in self.models:
            if (wrapper := model.wrapper()) is not None:
                copies = copies_of(wrapper, trained)
                model.first_copies = list(map(checksum, copies))
                model.known_copies = list(map(weakref.ref, copies))

    def looked_at_copies(self, loader: int) -> None:
        """Record the copies that are known after a pass over this loader in which no DDP model was called.

        A copy may be gone at the end, and ranks that evaluate one have brought it to what it is to be.
        """
        for model in self.models:
            if model.copies_at and self.steps < model.copies_at[0] + _BETWEEN_EVALUATIONS:
                continue
            copies = [copy for known in model.known_copies if (copy := known()) is not None]
            if copies:
                trained = self.trained_parameters()
                model.copies = [checksum(copy) for copy in copies if is_copy(copy, trained)]
                model.copies_at = self.steps, loader

    def trained_parameters(self) -> set[int]:
        """Return the ids of the parameters of DDP models, and of those that an optimizer steps."""
        wrappers = (each.wrapper() for each in self.models)
        of_models = {
            id(p) for wrapper in wrappers if wrapper is not None for p in wrapper.module.parameters()
        }
        return of_models.union(*(each.parameters() for each in self.optimizers.found))

    def finish(self) -> None:
        """Record the weights at the end of training; a second call replaces the first one's record."""
        trained = self.trained_parameters()
        for model in self.models:
            wrapper = model.wrapper()
            # One from an earlier cell that is not used here is none of this run's business.
            if wrapper is not None and (model.forwards or not model.found):
                self.looked_for_changes(model, wrapper, -1)
                self.notes.weights.append(weight_check(wrapper, model.number, -1, model.frozen, self.unseen))
                if copies := copies_of(wrapper, trained):
                    model.copies, model.copies_at = list(map(checksum, copies)), ()
        wrappers = [model.wrapper() for model in self.models]
        for each in self.optimizers.found:
            optimizer = each.optimizer()
            if optimizer is not None:
                self.notes.outside.append(outside_check(optimizer, wrappers, each.number, -1, self.unseen))


def kinds_with_modes() -> tuple[tuple[type[Any], ...], tuple[type[Any], ...]]:
    """Return the kinds of batch normalisation, and of dropout: they compute something else in evaluation mode."""
    from torch import nn

    norms = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm
    drops = nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout
    return norms, drops


def _has_modes(module: nn.Module) -> bool:
    """Check whether the module computes something else in evaluation mode."""
    norms, drops = kinds_with_modes()
    return isinstance(module, norms) or (isinstance(module, drops) and bool(module.p > 0))


def _in_evaluation(module: nn.Module) -> tuple[str, ...]:
    """List the parts that are in evaluation mode and compute something else in it."""
    return tuple(
        f"{name or 'the model'} ({type(part).__name__})"
        for name, part in module.named_modules()
        if not part.training and _has_modes(part)
    )


def _versions(wrapper: DistributedDataParallel) -> tuple[int, ...]:
    """Return how often each parameter of the model has been changed in place."""
    return tuple(parameter._version for parameter in wrapper._module_parameters)


def _tensors_found(wrapper: DistributedDataParallel, output: object) -> bool:
    """Check whether DDP finds a tensor in forward's result from which a backward pass could begin."""
    from torch import Tensor
    from torch.nn.parallel import distributed
    from torch.utils import _pytree

    found = _pytree.tree_leaves(output) if wrapper.static_graph else distributed._find_tensors(output)
    return any(isinstance(each, Tensor) and each.requires_grad for each in found)


CURRENT: Probe | None = None


def note_with(probe: Probe | None) -> None:
    """Let this probe, or none, record what wrapped modules do from now on."""
    global CURRENT
    CURRENT = probe


class _Entering:
    """Called before the forward of every wrapped module.

    A copy of the module, or one that was saved, has in its place a function that does nothing and needs no course.
    """

    __name__ = "entering"

    def __call__(self, module: nn.Module, arguments: object) -> None:
        if CURRENT is not None:
            guarded(CURRENT, CURRENT.unseen, "calls past DDP").entering(module)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, str]]:
        return getattr, ({}, "get")  # {}.get(module, arguments) gives the arguments


ENTERING = _Entering()
