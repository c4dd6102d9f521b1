"""One process of the learner's script: what it computes is noted, then it is over."""

from __future__ import annotations

import fcntl
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypedDict, TypeVar

from course_lib.tasks.launching import (
    ScriptEnded,
    become_a_process,
    exit_code,
    leave,
    line_in,
    run_as_main,
    write_whole,
)
from realranks.outcome.steady import steady_message

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: How the names of the files begin that tell who saves.
_SAVES = "saves-"


class Note(TypedDict):
    """The actions of one process.

    Attributes:
        shares: how many images each loss was computed of. gradients: the norm of the gradient at each optimizer step.
        printed: its lines on standard output.
        code: its exit code. error: the type and the message of what it raised, and the script's line; "" for nothing.
    """

    shares: list[int]
    gradients: list[float]
    printed: list[str]
    code: int
    error: str


def run_script(script: str, arguments: list[str], folder: str) -> None:
    """Run the script in a process of the agent; return if it ends well, else end the process."""
    become_a_process()
    rank = os.environ["RANK"]
    said = Path(folder, f"said-{rank}")
    out = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    note: Note = {"shares": [], "gradients": [], "printed": [], "code": 0, "error": ""}
    _listen(note)
    _save_one_after_the_other(folder, rank)
    try:
        run_as_main(script, arguments)
    except (ScriptEnded, SystemExit) as ended:
        note["code"] = exit_code(ended)
    except BaseException as error:
        message = steady_message(str(error)).rstrip(".")
        note["code"] = 1
        note["error"] = f"{type(error).__name__} in line {line_in(script, error)}: {message}"[:300]
    sys.stdout.flush()
    note["printed"] = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    write_whole(Path(folder, f"note-{rank}.json"), note)
    leave(note["code"])


def writers(folder: Path) -> list[int]:
    """Return the ranks that called torch.save, even those that ended before they could note it."""
    return sorted(int(path.name.removeprefix(_SAVES)) for path in folder.glob(f"{_SAVES}*"))


def _save_one_after_the_other(folder: str, rank: str) -> None:
    """Note who calls torch.save, and let one process save at a time.

    Whether two that write one file at the same time leave a whole one, a broken one or an exception is chance; the
    verdict on them must not be.
    """
    import torch

    def alone(save: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(save)
        def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
            Path(folder, f"{_SAVES}{rank}").touch()
            with open(Path(folder, "one-saves"), "w") as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                return save(*arguments, **options)

        return call

    torch.save = alone(torch.save)


def _with_listener(function: Callable[_P, _R], listen: Callable[[object], None]) -> Callable[_P, _R]:
    """Wrap a function so that `listen` gets its first argument first, however it is passed."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        listen(arguments[0] if arguments else next(iter(options.values()), None))
        return function(*arguments, **options)

    return call


def _listen(note: Note) -> None:
    """Note each loss and each step, wherever the script calls them from."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def loss_of(scores: object) -> None:
        if torch.is_grad_enabled() and isinstance(scores, torch.Tensor):
            note["shares"].append(len(scores))

    def stepping(optimizer: torch.optim.Optimizer, *_: object) -> None:
        gradients = [
            p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        ]
        squares = sum(gradient.double().square().sum().item() for gradient in gradients)
        note["gradients"].append(squares**0.5)

    torch.nn.functional.cross_entropy = _with_listener(torch.nn.functional.cross_entropy, loss_of)
    register_optimizer_step_pre_hook(stepping)
