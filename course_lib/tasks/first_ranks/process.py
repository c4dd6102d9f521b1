"""One process of the learner's script: what it computes is noted, then it is over."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypedDict, TypeVar

from course_lib.outcome.steady import steady_message
from course_lib.tasks.launching import ScriptEnded, become_a_process, exit_code, leave, line_in, run_as_main

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Note(TypedDict):
    """What one process did.

    Attributes:
        shares: how many images each loss was computed of. gradients: the norm of the gradient at each optimizer step.
        printed: its lines on standard output. saved: how often it called torch.save.
        code: its exit code. error: the type and the message of what it raised, and the script's line; "" for nothing.
    """

    shares: list[int]
    gradients: list[float]
    printed: list[str]
    saved: int
    code: int
    error: str


def run_script(script: str, arguments: list[str], folder: str) -> None:
    """What the agent calls in each process. Returns when the script ends well; else the process ends."""
    become_a_process()
    rank = os.environ["RANK"]
    said = Path(folder, f"said-{rank}")
    out = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    note: Note = {"shares": [], "gradients": [], "printed": [], "saved": 0, "code": 0, "error": ""}
    _listen(note)
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
    Path(folder, f"note-{rank}.json").write_text(json.dumps(note))
    leave(note["code"])


def _told(function: Callable[_P, _R], tell: Callable[[object], None]) -> Callable[_P, _R]:
    """The same function; `tell` gets its first argument before, however it is given."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        tell(arguments[0] if arguments else next(iter(options.values()), None))
        return function(*arguments, **options)

    return call


def _listen(note: Note) -> None:
    """Note each loss, each step and each save, wherever the script calls them from."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def loss_of(scores: object) -> None:
        if torch.is_grad_enabled() and isinstance(scores, torch.Tensor):
            note["shares"].append(len(scores))

    def saved(_: object) -> None:
        note["saved"] += 1

    def stepping(optimizer: torch.optim.Optimizer, *_: object) -> None:
        gradients = [
            p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        ]
        squares = sum(gradient.double().square().sum().item() for gradient in gradients)
        note["gradients"].append(squares**0.5)

    torch.nn.functional.cross_entropy = _told(torch.nn.functional.cross_entropy, loss_of)
    torch.save = _told(torch.save, saved)
    register_optimizer_step_pre_hook(stepping)
