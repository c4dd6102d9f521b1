"""Parameters that feed a collective which no gradient comes back through. Used inside a rank, within `watching`.

`all_gather` and its like fill new tensors: autograd knows nothing of how they came to be.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from realranks.outcome.probe_notes import ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

if TYPE_CHECKING:
    from torch import Tensor

_P = ParamSpec("_P")
_R = TypeVar("_R")

_COLLECTIVES = ("allgather", "_allgather_base", "gather", "alltoall", "alltoall_base", "reduce_scatter")
#: Calls that are looked at, and steps of the graph that are followed in each.
_MAX_CALLS, _MAX_NODES = 4, 50_000


class Gathered:
    """Those of this rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes
        self._parameters: dict[int, weakref.ref[Tensor]] = {}
        self._calls = 0

    def wrap(self, stack: ExitStack, replace: Replace, noting: Gathered) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        from torch.distributed import ProcessGroup

        def make(original: Callable[_P, _R]) -> Callable[_P, _R]:
            def collective(*arguments: _P.args, **options: _P.kwargs) -> _R:
                noting.given((arguments, options))
                return original(*arguments, **options)

            return collective

        for name in _COLLECTIVES:
            replace(stack, ProcessGroup, name, make)

    def given(self, arguments: object) -> None:
        """Record the parameters behind the tensors given to a collective.

        Collectives inside an autograd function's forward do not count: they run with gradients disabled.
        """
        import torch
        from torch.utils import _pytree

        if self._calls >= _MAX_CALLS or not torch.is_grad_enabled():
            return
        leaves = _pytree.tree_leaves(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not tensors:
            return
        self._calls += 1
        self._notes.gathered_at = self._notes.gathered_at or learners_line()
        for parameter in _parameters_behind(tensors):
            self._parameters[id(parameter)] = weakref.ref(parameter)

    def fed_by(self, parameter: Tensor) -> bool:
        """Check whether the arguments of such a collective were computed from this parameter."""
        known = self._parameters.get(id(parameter))
        return known is not None and known() is parameter


def pass_gradients_on(stack: ExitStack, replace: Replace, passed: Callable[[str], None]) -> None:
    """Make the collectives of a group of one copy what they are given where autograd sees it.

    So one process has the gradients that several would have if these collectives passed them on.

    Args:
        stack: until it is closed. replace: puts a wrapper in a function's place.
        passed: called with the line of a collective that a gradient has come back through.
    """
    import torch
    from torch.distributed import ProcessGroup
    from torch.utils import _pytree

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def collective(
            group: ProcessGroup, outputs: object, inputs: object, *rest: Any, **options: Any
        ) -> Any:
            work = original(group, outputs, inputs, *rest, **options)
            if group.size() == 1 and torch.is_grad_enabled():
                work.wait()
                pairs = zip(_pytree.tree_leaves(outputs), _pytree.tree_leaves(inputs), strict=False)
                for output, given in pairs:
                    if given.requires_grad and output.numel() == given.numel():
                        with suppress(RuntimeError):  # such as a view that was made under no_grad()
                            output.copy_(given.reshape(output.shape))
                            output.register_hook(_calling(passed, learners_line()))
            return work

        return collective

    for name in _COLLECTIVES:
        replace(stack, ProcessGroup, name, make)


def _calling(passed: Callable[[str], None], line: str) -> Callable[[Tensor], None]:
    def came_back(gradient: Tensor) -> None:
        if gradient.any():
            passed(line)

    return came_back


def _parameters_behind(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Find the parameters from which these tensors were computed, as far as the graph can be followed."""
    nodes = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(nodes)
    found = []
    while nodes and len(seen) < _MAX_NODES:
        node = nodes.pop()
        if (variable := getattr(node, "variable", None)) is not None:
            found.append(variable)
        new = {each for each, _ in node.next_functions if each is not None} - seen
        seen |= new
        nodes += new
    return found
