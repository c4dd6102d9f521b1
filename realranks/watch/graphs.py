"""How much of autograd's graphs is alive in the first steps: what grows with each step is kept by somebody.

Used inside a rank, within `watching`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from realranks.outcome.places import is_learners
from realranks.outcome.probe_notes import ProbeNotes
from realranks.watch.alive import alive

if TYPE_CHECKING:
    from torch import Tensor

#: The optimizer steps before which it is counted, and how many nodes at most.
_STEPS, _MAX_NODES = (4, 8, 12), 200_000


class Graphs:
    """The graphs of this rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        self._notes = notes.graphs

    def count(self, step: int) -> None:
        """Count the nodes that live tensors hold, before some of the first optimizer steps."""
        if step not in _STEPS or len(self._notes.nodes) != _STEPS.index(step):
            return
        import torch

        tensors = alive(torch.Tensor)
        held = {id(each): _reachable(each) for each in tensors if each.grad_fn is not None}
        self._notes.nodes.append(len(set().union(*held.values())))
        if step == _STEPS[-1] and held:
            most = max(tensors, key=lambda each: len(held.get(id(each), ())))
            self._notes.held_by = _name_of(most)


def _reachable(tensor: Tensor) -> set[object]:
    found: set[object] = set()
    todo = [tensor.grad_fn]
    while todo and len(found) < _MAX_NODES:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [following for following, _ in node.next_functions]
    return found


def _name_of(tensor: Tensor) -> str:
    """Return the learner's variable that holds this tensor, itself or in a list; "" if none of the callers has one."""
    frame = sys._getframe()
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            for name, value in frame.f_locals.items():
                kept = value if isinstance(value, list | tuple) else [value]
                if any(each is tensor for each in kept):
                    return name
        frame = frame.f_back  # type: ignore[assignment]
    return ""
