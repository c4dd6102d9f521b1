"""A script's first optimizer step, recorded on several ranks and made again by one with the rows of all of them.

Each rank keeps the batches that its loaders gave until then, and the gradients that backward has left; rank 0 keeps the
weights that DDP began with. One rank alone begins with the same weights, gets the batches of all ranks joined, and
compares its gradients. Dropout draws nothing meanwhile, and batch normalisation uses its running statistics. Used
inside a rank, as a job's `around`; `scripts.one_process` does the same with one batch, by the functions at the end.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from realranks.watch.around import COMPARISON
from realranks.watch.gathered import pass_gradients_on
from realranks.watch.lines import learners_line
from realranks.watch.patches import replace
from realranks.watch.probe import kinds_with_modes
from realranks.watch.rows import number_of_rows, sums_of_rows
from realranks.watch.watching import watching

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

_MAX_NAMES = 3

_Function = Callable[..., Any]


class _Done(BaseException):
    """The first step is made: the script need not go on."""


class NotComparable(BaseException):
    """One process cannot do what the ranks did; the message says why."""


@contextlib.contextmanager
def first_step(folder: str, ranks: int = 0) -> Iterator[None]:
    """Watch the script within the block until its first optimizer step, and end it there.

    Args:
        folder: of what is kept. ranks: those whose files it has; 0 while they are made.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    taking = _FirstStep(Path(folder), ranks)
    with contextlib.ExitStack() as stack:
        stack.enter_context(watching())
        taking.wrap(stack)
        stack.callback(register_optimizer_step_pre_hook(lambda *_: taking.end()).remove)
        try:
            yield
        except _Done:
            pass
        except NotComparable as error:
            (taking.folder / COMPARISON).write_text(json.dumps({"why_not": str(error)}), encoding="utf-8")


class _FirstStep:
    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder, self.ranks = folder, ranks
        self.models: list[nn.Module] = []
        self.loaders: list[object] = []
        self.batches: list[list[object]] = []
        self.gradients: list[dict[str, Tensor]] = []
        #: Models whose last forward was under no_sync(): DDP does not average what its backward pass adds.
        self.unaveraged: set[int] = set()
        self.of_a_part = False  # the kept gradients were taken after such a pass
        self.clips: list[dict[str, Any]] = []  # those after such a pass
        self.rows = 0
        self.sums: list[Tensor] = []
        self.switched_off: set[str] = set()
        self.passed_on: list[str] = []  # lines of collectives through which ranks get no gradient
        self.state: Tensor | None = None

    def wrap(self, stack: contextlib.ExitStack) -> None:
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        def construct(original: _Function) -> _Function:
            def construct(wrapper: DistributedDataParallel, *arguments: Any, **options: Any) -> None:
                original(wrapper, *arguments, **options)
                self.built(wrapper)

            return construct

        def following(original: _Function) -> _Function:
            def following(iterator: object) -> object:
                return self.given(iterator, original(iterator))

            return following

        def clip(original: _Function) -> _Function:
            def clip(parameters: Any, *arguments: Any, **options: Any) -> Any:
                listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
                self.take()
                of_models = {id(p) for number in self.unaveraged for p in self.models[number].parameters()}
                own = [parameter for parameter in listed if id(parameter) in of_models]
                before = _lengths(own)
                total = original(listed, *arguments, **options)
                if own:
                    changed = not torch.equal(before, _lengths(own))
                    self.clips.append({"where": learners_line(), "before": before, "changed": changed})
                return total

            return clip

        def backward(original: _Function) -> _Function:
            def backward(*arguments: Any, **options: Any) -> None:
                if self.of_a_part:
                    self.gradients, self.of_a_part = [], False
                original(*arguments, **options)

            return backward

        replace(stack, DistributedDataParallel, "__init__", construct)
        replace(stack, _BaseDataLoaderIter, "__next__", following)
        replace(stack, torch.nn.utils, "clip_grad_norm_", clip)
        replace(stack, torch.nn.utils, "clip_grad_value_", clip)
        replace(stack, torch.autograd, "backward", backward)
        if self.ranks:
            pass_gradients_on(stack, replace, self.passed_on.append)

    def built(self, wrapper: DistributedDataParallel) -> None:
        """Keep a model's weights, or take the kept ones; switch off what depends on chance or on the batch."""
        import torch

        module, number = wrapper.module, len(self.models)
        file = self.folder / f"weights-{number}.pt"
        self.models.append(module)
        if self.ranks:
            module.load_state_dict(torch.load(file))
        elif _rank() == 0:
            torch.save(module.state_dict(), file)

        def entering(module: nn.Module, arguments: object, options: object) -> None:
            self.called((arguments, options))
            if torch.is_grad_enabled():
                (self.unaveraged.discard if wrapper.require_backward_grad_sync else self.unaveraged.add)(
                    number
                )

        module.register_forward_pre_hook(entering, with_kwargs=True)
        self.switched_off |= switch_off(module, contextlib.ExitStack())  # for good: the script ends

    def called(self, inputs: object) -> None:
        """Count the rows that a model gets, and add up each."""
        self.rows += number_of_rows(inputs)
        self.sums.append(sums_of_rows(inputs))

    def given(self, iterator: object, batch: object) -> object:
        """Keep a batch; or return that of all ranks in its place."""
        import torch

        if self.state is None:
            self.state = torch.get_rng_state()
        if not any(each is iterator for each in self.loaders):
            self.loaders.append(iterator)
            self.batches.append([])
        number = next(n for n, each in enumerate(self.loaders) if each is iterator)
        index = len(self.batches[number])
        self.batches[number].append(plain(batch) if not self.ranks else None)
        return self._of_all(number, index, batch) if self.ranks else batch

    @cached_property
    def kept(self) -> list[dict[str, Any]]:
        """Load what each rank has left."""
        import torch

        return [torch.load(self.folder / f"{rank}.pt", weights_only=False) for rank in range(self.ranks)]

    def _of_all(self, number: int, index: int, own: object) -> object:
        try:
            parts = [each["batches"][number][index] for each in self.kept]
        except IndexError:
            why = "one process asks for more batches before its first optimizer step than each rank did"
            raise NotComparable(why) from None
        return join(own, parts)

    def take(self) -> None:
        """Keep the gradients as backward has left them; later they may be clipped."""
        if not self.gradients:
            self.gradients = [gradients_of(model) for model in self.models]
            self.of_a_part = bool(self.unaveraged)

    def end(self) -> None:
        """Keep or compare what there is now, and end the script."""
        import torch

        if not self.models:
            return
        self.take()
        drawn = self.state is not None and not torch.equal(self.state, torch.get_rng_state())
        sums = torch.cat(self.sums or [torch.zeros(0)]).sort().values
        mine = {"rows": self.rows, "drawn": drawn, "batches": self.batches, "sums": sums, "clips": self.clips}
        mine["lengths"] = torch.stack(
            [g.norm() for each in self.gradients for g in each.values()] or [sums.sum()]
        )
        if not self.ranks:
            rank = _rank()
            torch.save(
                mine | ({"gradients": self.gradients} if rank == 0 else {}), self.folder / f"{rank}.pt"
            )
            raise _Done
        rows = [each["rows"] for each in self.kept]
        if sum(rows) != self.rows or not self.rows:
            raise NotComparable("the rows that the model gets are not those that loaders give")
        result = compared(self.kept[0]["gradients"], self.gradients)
        result |= {
            "rows": rows,
            "drawn": drawn or any(each["drawn"] for each in self.kept),
            "averaged": all(_near(each["lengths"], self.kept[0]["lengths"]) for each in self.kept),
            "other_inputs": not _near(sums, torch.cat([each["sums"] for each in self.kept]).sort().values),
            "gathered_at": next(iter(self.passed_on), ""),
            "clipped_at": _clipped_apart([each["clips"] for each in self.kept]),
            "switched_off": sorted(self.switched_off),
        }
        (self.folder / COMPARISON).write_text(json.dumps(result), encoding="utf-8")
        raise _Done


def _clipped_apart(of_ranks: Sequence[list[dict[str, Any]]]) -> str:
    """Return the line of a clip that has changed gradients which were not the same on all ranks; or ''."""
    for clips in zip(*of_ranks, strict=False):
        alike = all(_near(clip["before"], clips[0]["before"]) for clip in clips)
        if not alike and any(clip["changed"] for clip in clips):
            return str(clips[0]["where"])
    return ""


def _lengths(parameters: Iterable[Tensor]) -> Tensor:
    """Return the length of each gradient."""
    import torch

    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return torch.stack([grad.detach().double().norm() for grad in grads] or [torch.zeros(())])


def _near(one: Tensor, other: Tensor) -> bool:
    import torch

    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def _rank() -> int:
    import torch.distributed as dist

    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", 0))


def switch_off(module: nn.Module, stack: contextlib.ExitStack) -> set[str]:
    """Make dropout draw nothing and batch normalisation use its running statistics, until the stack is closed.

    Returns:
        What was switched off, in words.
    """
    norms, drops = kinds_with_modes()
    found = set()
    for part in module.modules():
        if isinstance(part, drops) and part.p:
            stack.callback(setattr, part, "p", part.p)
            part.p = 0.0
            found.add("dropout")
        elif isinstance(part, norms) and part.track_running_stats:
            stack.callback(_put_forward_back, part, vars(part).get("forward"))
            part.forward = types.MethodType(_with_running_statistics, part)
            found.add("batch normalisation")
    return found


def _put_forward_back(part: Any, own: _Function | None) -> None:
    if own is None:
        del part.forward
    else:
        part.forward = own


def gradients_of(module: nn.Module) -> dict[str, Tensor]:
    """Copy the gradients that the parameters have, by name."""
    import torch

    return {
        name: p.grad.detach().to(torch.float64, copy=True)
        for name, p in module.named_parameters()
        if p.grad is not None
    }


def _with_running_statistics(norm: Any, x: Tensor) -> Tensor:
    from torch.nn.functional import batch_norm

    return batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.0, norm.eps)


class _Unknown(NamedTuple):
    """Something of a batch that is no tensor, text or number, and no container of such."""

    type: str


def plain(batch: object) -> object:
    """Return what is kept of a batch: its tensors and values in lists and dictionaries."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.detach().cpu()
    if batch is None or isinstance(batch, str | bytes | int | float):
        return batch
    if isinstance(batch, Mapping):
        return {key: plain(batch[key]) for key in batch}
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return {each.name: plain(getattr(batch, each.name)) for each in dataclasses.fields(batch)}
    if isinstance(batch, list | tuple):
        return list(map(plain, batch))
    return _Unknown(type(batch).__name__)


def join(own: object, parts: Sequence[object]) -> object:
    """Join what was kept of the ranks' batches row by row, in the form of the one process's own batch.

    Raises:
        NotComparable: they cannot be joined.
    """
    try:
        return _joined(own, parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NotComparable("the batches of the ranks are not made alike, and cannot be joined") from None


def _joined(own: Any, parts: Sequence[Any]) -> object:
    import torch

    first = parts[0]
    if isinstance(first, _Unknown):
        raise NotComparable(f"batches with a {first.type} in them cannot be joined")
    if isinstance(first, torch.Tensor):
        if first.dim() and len({part.shape[1:] for part in parts}) == 1:
            return torch.cat([part.to(own.device) for part in parts])
        if not first.dim() and all(torch.equal(part, first) for part in parts):
            return first.to(own.device)
        raise NotComparable("the rows of the ranks have different shapes, and cannot be put into one batch")
    if isinstance(first, dict):
        joined = {key: _joined(_item(own, key), [part[key] for part in parts]) for key in first}
        if not isinstance(own, Mapping):
            return dataclasses.replace(own, **joined)
        own = copy.copy(own)
        for key, value in joined.items():
            own[key] = value
        return own
    if isinstance(first, list):
        if all(isinstance(text, str) for part in parts for text in part):
            return type(own)(text for part in parts for text in part)
        each = [_joined(mine, theirs) for mine, *theirs in zip(own, *parts, strict=True)]
        return type(own)(*each) if hasattr(own, "_fields") else type(own)(each)
    if any(part != first for part in parts):
        raise NotComparable("the ranks' batches hold other values than tensors, and they differ")
    return first


def _item(batch: Any, key: object) -> object:
    return batch[key] if isinstance(batch, Mapping) else getattr(batch, str(key))


def compared(several: Sequence[dict[str, Tensor]], one: Sequence[dict[str, Tensor]]) -> dict[str, object]:
    """Compare gradients: the factor between them, and what is left of the difference after it, of their length.

    A parameter that has none on one side counts as zero there.
    """
    import torch

    pairs = []
    for theirs, own in zip(several, one, strict=False):
        zeros = {name: torch.zeros_like(gradient) for name, gradient in {**theirs, **own}.items()}
        pairs += [(name, {**zeros, **theirs}[name], {**zeros, **own}[name]) for name in zeros]
    a = torch.cat([theirs.flatten() for _, theirs, _ in pairs] or [torch.zeros(0)])
    b = torch.cat([own.flatten() for *_, own in pairs] or [torch.zeros(0)])
    if not (a.isfinite().all() and b.isfinite().all() and a.norm() and b.norm()):
        return {"why_not": "the gradients are all zero, or not finite"}
    factor = float(a @ b / (b @ b))
    rest = {name: float((theirs - factor * own).norm()) for name, theirs, own in pairs}
    return {
        "factor": factor,
        "rest": float((a - factor * b).norm() / a.norm()),
        "most": sorted(rest, key=lambda name: -rest[name])[:_MAX_NAMES],
    }
