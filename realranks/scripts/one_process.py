"""Whether ranks have the gradients of one process with all their rows, asked in the middle of a cell or a script.

Used inside a rank. What is compared, and what is said of it, is that of `doctor --like-one-process`.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from realranks.doctor.like_one_process import Comparison
from realranks.ranks.codec import decode
from realranks.watch.digest import digest
from realranks.watch.first_step import NotComparable, compared, gradients_of, join, plain, switch_off
from realranks.watch.gathered import pass_gradients_on
from realranks.watch.patches import replace
from realranks.watch.rows import number_of_rows

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

    _LossOf = Callable[[nn.Module, Any], Tensor]


def like_one_process(ddp: DistributedDataParallel, loss_of: _LossOf, batch: object) -> Comparison:
    """Compare the gradients that DDP gives this batch with those of one process that has the rows of all ranks.

    A collective call: every rank of the model's group makes it. DDP computes the gradients of each rank's batch. Then
    rank 0 alone computes those of all batches joined, with a copy of the bare module. Dropout and batch normalisation
    are switched off in both. Gradients, buffers and the random generators of torch and Python are put back; DDP itself
    has made one iteration more.

    Args:
        ddp: the wrapped model. It holds the same weights on every rank.
        loss_of: called as `loss_of(model, batch)`; returns the scalar whose `backward()` your training calls. One
            process has a world size of 1, so call `dist.get_world_size()` inside it, and keep no copy of that outside.
        batch: this rank's rows, along the first dimension of its tensors; a tensor, or tuples, lists, dictionaries or
            dataclasses of tensors, numbers and text.

    Returns:
        The same on every rank: `alike`, or the `factor` between the gradients and the `rest` of the difference, or
        `why_not`. It prints itself as the doctor's sentence.

    Raises:
        TypeError: `ddp` is not a DistributedDataParallel model.
        Exception: what `loss_of` raises with the wrapped model.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(f"like_one_process() needs a DistributedDataParallel model, not {type(ddp).__name__}")
    group: Any = ddp.process_group
    first, size = dist.get_global_rank(group, 0), dist.get_world_size(group)
    alone = dist.get_rank(group) == 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng({p.device.index for p in ddp.parameters() if p.is_cuda}))
        stack.callback(random.setstate, random.getstate())
        state = torch.get_rng_state()
        held = [
            *ddp.module.named_parameters(),
            *(() if ddp.broadcast_buffers else ddp.module.named_buffers()),
        ]
        mine: dict[str, Any] = {"held": {name: digest(tensor).crc for name, tensor in held}}
        gradients, mine["rows"], off = _through(ddp, ddp.module, loss_of, batch)
        mine |= {"drawn": not torch.equal(state, torch.get_rng_state()), "batch": plain(batch)}
        everyones: list[Any] | None = [None] * size if alone else None
        dist.gather_object(mine, everyones, dst=first, group=group)
        found = [_beside_one(ddp, loss_of, batch, gradients, off, everyones) if everyones else None]
        dist.broadcast_object_list(found, src=first, group=group)
    assert found[0] is not None
    return found[0]


def _beside_one(
    ddp: DistributedDataParallel,
    loss_of: _LossOf,
    batch: object,
    gradients: dict[str, Tensor],
    off: set[str],
    everyones: Sequence[dict[str, Any]],
) -> Comparison:
    rows = [each["rows"] for each in everyones]
    try:
        for name, crc in everyones[0]["held"].items():
            if any(each["held"].get(name) != crc for each in everyones):
                raise NotComparable(f"{name} was not the same on all ranks before the step")
        if number := _world_size_outside(loss_of, len(everyones)):
            raise NotComparable(
                f"loss_of reads {number}, which is {len(everyones)} like the number of ranks, and would be 1 in one "
                "process: call dist.get_world_size() inside loss_of, or pass another number as a default argument"
            )
        joined = join(batch, [each["batch"] for each in everyones])
        passed_on: list[str] = []
        with _group_of_one(), contextlib.ExitStack() as stack:
            pass_gradients_on(stack, replace, passed_on.append)
            module = copy.deepcopy(ddp.module)
            own, own_rows, _ = _through(module, module, loss_of, joined)
        if own_rows != sum(rows) or not own_rows:
            raise NotComparable("the rows that the model gets are not those of the batch")
    except NotComparable as why:
        return Comparison(why_not=str(why))
    except Exception as error:
        return Comparison(
            why_not=f"one process, with the rows of all ranks, raises {type(error).__name__}: {error}"
        )
    told = compared([gradients], [own])
    told |= {"rows": rows, "drawn": any(each["drawn"] for each in everyones), "switched_off": sorted(off)}
    told["gathered_at"] = next(iter(passed_on), "")
    return decode(Comparison, told)


def _through(
    model: nn.Module, module: nn.Module, loss_of: _LossOf, batch: object
) -> tuple[dict[str, Tensor], int, set[str]]:
    """Return the gradients of a batch, how many rows the module got, what was switched off; leave it as it was."""
    rows = 0

    def called(_: nn.Module, arguments: object, options: object) -> None:
        nonlocal rows
        rows += number_of_rows((arguments, options))

    with contextlib.ExitStack() as stack:
        for part in module.modules():
            for name, buffer in part.named_buffers(recurse=False):
                stack.callback(_put_buffer_back, part, name, buffer, buffer.clone())
        for parameter in module.parameters():
            kept = None if parameter.grad is None else parameter.grad.clone()
            stack.callback(_put_gradient_back, parameter, parameter.grad, kept)
            parameter.grad = None
        off = switch_off(module, stack)
        stack.callback(module.register_forward_pre_hook(called, with_kwargs=True).remove)
        loss_of(model, batch).backward()
        return gradients_of(module), rows, off


def _put_buffer_back(part: nn.Module, name: str, buffer: Tensor, kept: Tensor) -> None:
    setattr(part, name, buffer)
    buffer.copy_(kept)


def _put_gradient_back(parameter: Tensor, gradient: Tensor | None, kept: Tensor | None) -> None:
    """Put back the tensor and what was in it: it may be a view of DDP's bucket, which now holds something else."""
    parameter.grad = gradient
    if gradient is not None and kept is not None:
        gradient.detach().copy_(kept)


@contextlib.contextmanager
def _group_of_one() -> Iterator[None]:
    """Make this rank's default group one of itself alone: the world size is 1, and no collective waits for others."""
    import torch.distributed as dist

    everyone = dist.group.WORLD
    one = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    dist.group.WORLD = one
    try:
        yield
    finally:
        dist.group.WORLD = everyone
        dist.destroy_process_group(one)


def _world_size_outside(loss_of: _LossOf, size: int) -> str:
    """Return the name of a variable outside of `loss_of` that it reads, and that is the number of ranks; or ''."""
    if size == 1 or not inspect.isfunction(loss_of):
        return ""
    read = inspect.getclosurevars(loss_of)
    names = {**read.globals, **read.nonlocals}
    return next((name for name, value in names.items() if type(value) is int and value == size), "")
