"""The functions of torch that are wrapped while a rank is watched; what is noted of their calls is `probe`'s business.

Used inside a rank; imports torch when it is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from realranks.watch.dynamo import passed_over
from realranks.watch.exchanges import Exchanges
from realranks.watch.files import Files
from realranks.watch.guard import guarded
from realranks.watch.metrics import Metrics
from realranks.watch.scaling import Scaling
from realranks.watch.schedules import Schedules
from realranks.watch.state_dicts import StateDicts

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    from realranks.watch.probe import Probe

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Function = TypeVar("_Function", bound=Callable[..., object])
_OfDdp = Callable[Concatenate["DistributedDataParallel", _P], _R]


def patch(probe: Probe, stack: contextlib.ExitStack) -> None:
    """Put wrappers around what the probe wants to hear of, until the stack is closed; they never raise."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    models = guarded(probe, probe.unseen, "DDP models")
    optimizers = guarded(probe, probe.unseen, "optimizer steps")

    def constructor(original: _OfDdp[_P, None]) -> _OfDdp[_P, None]:
        def construct(self: DistributedDataParallel, /, *arguments: _P.args, **options: _P.kwargs) -> None:
            original(self, *arguments, **options)
            models.built(self)

        return construct

    def forward(original: _OfDdp[_P, _R]) -> _OfDdp[_P, _R]:
        def forward(self: DistributedDataParallel, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
            model, output = models.forward(self, (arguments, options)), None
            try:
                output = original(self, *arguments, **options)
                return output
            except BaseException as error:
                models.failed("forward", error, model)
                raise
            finally:
                if model is not None:
                    models.returned(model, output)

        return forward

    def prepare(original: Callable[[object, object], None]) -> Callable[[object, object], None]:
        def prepare_for_backward(reducer: object, outputs: object) -> None:
            original(reducer, outputs)
            models.prepared(reducer)

        return prepare_for_backward

    def backward(original: Callable[_P, None]) -> Callable[_P, None]:
        def backward(*arguments: _P.args, **options: _P.kwargs) -> None:
            backward_pass = models.backward()
            try:
                original(*arguments, **options)
            except BaseException as error:
                if backward_pass is not None:
                    models.failed("backward", error, backward_pass)
                raise
            models.reduced(backward_pass)

        return backward

    def destroy(original: Callable[_P, _R]) -> Callable[_P, _R]:
        def destroy_process_group(*arguments: _P.args, **options: _P.kwargs) -> _R:
            models.leaving()
            return original(*arguments, **options)

        return destroy_process_group

    def script(original: Callable[..., _R]) -> Callable[..., _R]:
        def script(obj: object, *arguments: object, _frames_up: int = 0, **options: object) -> _R:
            # TorchScript compiles a module's hooks with it, and cannot compile the probe's.
            with probe.unhooked():
                return original(obj, *arguments, _frames_up=_frames_up + 1, **options)

        return script

    @passed_over
    def before(optimizer: Optimizer, *_: object) -> None:
        optimizers.step(optimizer)

    @passed_over
    def after(optimizer: Optimizer, *_: object) -> None:
        optimizers.stepped(optimizer)

    replace(stack, torch.distributed, "destroy_process_group", destroy)
    replace(stack, DistributedDataParallel, "__init__", constructor)
    replace(stack, DistributedDataParallel, "forward", forward)
    replace(stack, torch.distributed.Reducer, "prepare_for_backward", prepare)
    replace(stack, torch.autograd, "backward", backward)
    replace(stack, torch.jit, "script", script)
    for handle in (register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)):
        stack.callback(handle.remove)
    exchanges, files, scaling = Exchanges(probe.notes), Files(probe.notes), Scaling(probe.notes, probe.models)
    metrics = Metrics(probe.notes, probe.loaders)
    schedules, state_dicts = Schedules(probe.notes, probe.optimizers), StateDicts(probe.notes)
    exchanges.wrap(stack, replace, guarded(exchanges, probe.unseen, "messages"))
    probe.gathered.wrap(stack, replace, guarded(probe.gathered, probe.unseen, "gathered tensors"))
    probe.draws.wrap(stack, replace, guarded(probe.draws, probe.unseen, "random numbers"))
    probe.workers.wrap(stack, replace, guarded(probe.workers, probe.unseen, "random numbers of loaders"))
    files.wrap(stack, replace, guarded(files, probe.unseen, "files"))
    schedules.wrap(stack, replace, guarded(schedules, probe.unseen, "schedules"))
    scaling.wrap(stack, replace, guarded(scaling, probe.unseen, "clipped gradients"))
    state_dicts.wrap(stack, replace, guarded(state_dicts, probe.unseen, "state dicts"))
    metrics.wrap(stack, replace, guarded(metrics, probe.unseen, "metrics"))
    probe.loaders.wrap(stack, replace, guarded(probe.loaders, probe.unseen, "samples"))


def replace(
    stack: contextlib.ExitStack,
    owner: object,
    name: str,
    make: Callable[[_Function], _Function],
) -> None:
    """Put a wrapper in the place of a function, looking like it from outside, until the stack is closed."""
    import functools

    if name not in vars(owner):
        return  # this torch has no such function: nothing can be noted of it
    original = getattr(owner, name)
    # What getattr() gives of a class of C++ is no longer a method when it is put back.
    stored = vars(owner)[name]
    setattr(owner, name, passed_over(functools.wraps(original)(make(original))))
    stack.callback(setattr, owner, name, stored)
