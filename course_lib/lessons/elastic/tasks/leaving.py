"""One worker that is sent SIGTERM while an answer trains in it; used in a process that an agent has started.

The signals are real, and where they come is decided beforehand: the process sends them to itself. A signal that another
process sends would be handled at the same places, between two of Python's instructions, but never twice at the same.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from course_lib.lessons.elastic.tasks import toy
from course_lib.tasks.launching import ScriptEnded, become_a_process, exit_code, leave
from course_lib.tasks.weights import numbers
from realranks.outcome.steady import steady_message
from realranks.outcome.syntax import CELL_PREFIX

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

Answer = Callable[[Callable[[int], None], Callable[[int], None], int, int], object]


class Signal(TypedDict):
    """A SIGTERM: for which rank, in which step, and where.

    Attributes:
        place: where in `train_step`, one of `PLACES`; or a number: before so many lines of the answer after the step.
    """

    rank: int
    step: int
    place: str | int


#: At the step's begin; when some weights have been updated and others not; at its end.
PLACES = ("begin", "middle", "end")


class Case(TypedDict):
    """A job, and who is asked to leave when.

    Attributes:
        first: how many steps have been done already.
    """

    seed: int
    workers: int
    first: int
    steps: int
    signals: list[Signal]


class Note(TypedDict):
    """An action of one worker: it trained a `step`, got a `signal`, called `save`, or came to an end.

    Attributes:
        done: how many steps were done then. inside: whether it was inside a step.
        step: the number that `train_step` or `save` was called with. value: what the answer returned.
        text: what it raised. code: with which code it left, by sys.exit or os._exit.
    """

    event: Literal["step", "signal", "save", "return", "raise", "exit", "stub"]
    done: int
    inside: bool
    step: NotRequired[object]
    value: NotRequired[object]
    text: NotRequired[str]
    code: NotRequired[int]


def work(answer: Answer, case: Case, folder: str) -> None:
    """Run the answer in a process of the agent; return if it returns, else end the process."""
    import torch.distributed as dist

    become_a_process()
    dist.init_process_group("gloo")
    scene = _Scene(case, folder)
    _note_an_end_by_force(scene)
    code = 1
    try:
        sys.settrace(scene.lines_of_the_answer)
        try:
            value = answer(scene.train_step, scene.save, case["first"], case["steps"])
        finally:
            sys.settrace(None)
        scene.note("return", value=value if isinstance(value, int | float | str | None) else repr(value)[:80])
        code = 0
    except (ScriptEnded, SystemExit) as ended:
        code = exit_code(ended)
        scene.note("exit", code=code)
    except BaseException as error:
        stub = type(error).__name__ == "_NotAttempted"
        text = f"{type(error).__name__}: {steady_message(str(error))}"[:200].rstrip(".")
        scene.note("stub" if stub else "raise", text=text)
    leave(code)


def read_notes(folder: str, rank: int) -> list[Note]:
    """Return what the worker of this rank has noted, in the order of time."""
    path = Path(folder, f"notes-{rank}")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def read_checkpoint(folder: str, rank: int) -> dict[str, Any]:
    """Return what the worker of this rank saved last: a step, and numbers (see `state_of`). Empty if nothing."""
    import torch

    path = Path(folder, f"checkpoint-{rank}")
    return dict(torch.load(path)) if path.is_file() else {}


def state_of(net: nn.Module, *optimizers: Optimizer) -> list[float]:
    """Return weights and momentum."""
    momentum = [
        optimizer.state[p]["momentum_buffer"]
        for optimizer in optimizers
        for group in optimizer.param_groups
        for p in group["params"]
        if p in optimizer.state
    ]
    return numbers([*net.parameters(), *momentum])


def states(seed: int, steps: int) -> list[list[float]]:
    """Return the state of one process before each step, and at the end (see `state_of`)."""
    net, optimizer = toy.make(seed)
    found = []
    for step in range(steps):
        found.append(state_of(net, optimizer))
        toy.train_step(net, optimizer, seed, step)
    return [*found, state_of(net, optimizer)]


def _note_an_end_by_force(scene: _Scene) -> None:
    """Write a note when an answer calls os._exit."""
    end, process = os._exit, os.getpid()

    def ending(code: int) -> None:
        if os.getpid() == process and scene.open:
            raise ScriptEnded(code)
        end(code)

    os._exit = ending  # type: ignore[assignment]


class _Scene:
    """The surroundings of an answer on one worker."""

    def __init__(self, case: Case, folder: str) -> None:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        self.case, self.folder, self.rank = case, folder, dist.get_rank()
        self.open, self.inside, self.done = True, False, case["first"]
        self._lines = 0
        net, optimizer = toy.make(case["seed"])
        for step in range(case["first"]):
            toy.train_step(net, optimizer, case["seed"], step)
        self.ddp = DistributedDataParallel(net)
        # Two, so that a signal can come when one layer has been updated and the other has not.
        self.halves = []
        for layer in (net[0], net[-1]):
            half = toy.optimizer_of(layer)
            half.state.update({p: optimizer.state[p] for p in layer.parameters() if p in optimizer.state})
            self.halves.append(half)

    def note(self, event: str, **what: object) -> None:
        """Add a line to the notes of this worker."""
        line = json.dumps({"event": event, "done": self.done, "inside": self.inside, **what}, default=repr)
        with open(Path(self.folder, f"notes-{self.rank}"), "a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.open = self.open and event in ("step", "signal", "save")

    def train_step(self, step: int) -> None:
        """Make forward, backward and update with this rank's share of a batch."""
        import torch.distributed as dist

        self.inside = True
        self._signal(step, "begin")
        for half in self.halves:
            half.zero_grad()
        toy.share_loss(
            self.ddp, self.case["seed"], int(step), dist.get_rank(), dist.get_world_size()
        ).backward()
        self.halves[0].step()
        self._signal(step, "middle")
        self.halves[1].step()
        self._signal(step, "end")
        self.done += 1
        self.inside = False
        self.note("step", step=step)
        for one in self._mine(step):
            if isinstance(one["place"], int):
                self._lines = one["place"]

    def save(self, step: int) -> None:
        """Write this rank's part of the checkpoint."""
        import torch

        self.note("save", step=step)
        state = {"step": step, "state": state_of(self.ddp.module, *self.halves)}
        torch.save(state, Path(self.folder, f"checkpoint-{self.rank}"))

    def lines_of_the_answer(self, frame: FrameType, event: str, _: object) -> Any:
        """Trace the answer (see sys.settrace): count its lines since a step, and send the signal due at one."""
        if not frame.f_code.co_filename.startswith(CELL_PREFIX):
            return None
        if event == "line" and self._lines and not self.inside:
            self._lines -= 1
            if not self._lines:
                self._send()
        return self.lines_of_the_answer

    def _mine(self, step: int) -> list[Signal]:
        return [one for one in self.case["signals"] if (one["rank"], one["step"]) == (self.rank, step)]

    def _signal(self, step: int, place: str) -> None:
        if any(one["place"] == place for one in self._mine(step)):
            self._send()

    def _send(self) -> None:
        self.note("signal")
        os.kill(os.getpid(), signal.SIGTERM)
