"""Run steps, each in a process of its own with a limit, and say of each PASS, FAIL or CANNOT, with one line of why."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from realranks.ranks.kernel.gpus import may_have_gpu
from tools.gpu_day.steps import PART_SECONDS, ROOT, Step

VERDICTS = ("PASS", "FAIL", "CANNOT")
#: What a story finds in its environment: how many GPUs there are, and whether it is rehearsed on the CPU with gloo.
CARDS, REHEARSAL, OUT = "GPU_DAY_CARDS", "GPU_DAY_REHEARSAL", "GPU_DAY_OUT"
_WHY_LENGTH = 300


@dataclass(frozen=True)
class Box:
    """The machine: how many GPUs work there, and why not more; and what the page says of it."""

    cards: int
    why: str = ""
    device: str = ""
    driver: str = ""
    torch: str = ""
    nccl: str = ""


@dataclass(frozen=True)
class Result:
    """What came of a step."""

    name: str
    verdict: str
    why: str
    seconds: float = 0.0


def look_at_the_machine() -> Box:
    """Which GPUs work here. Nothing is started where no file of a driver is, or the user hides all GPUs."""
    if not may_have_gpu(os.environ):
        return Box(0, "this machine has no driver of a GPU, or CUDA_VISIBLE_DEVICES hides all GPUs")
    code, said = _run((sys.executable, "-m", "tools.gpu_day.stories", "box"), 120.0, dict(os.environ))
    try:
        return Box(**json.loads(said.strip().splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        return Box(0, f"the GPUs could not be tried (exit code {code}): {_last_line(said)}")


def run_steps(
    steps: Iterable[Step],
    box: Box,
    out: Path,
    say: Callable[[str], None],
    rehearsal: bool = False,
    seconds: float | None = None,
) -> list[Result]:
    """Run these one after the other; what a step has written is in a file of its name in `out`.

    Args:
        seconds: how long a part may take; `PART_SECONDS` without it.
    """
    seconds = PART_SECONDS if seconds is None else seconds
    results: list[Result] = []
    part, began = 0, 0.0
    for step in steps:
        if step.part != part:
            part, began = step.part, time.monotonic()
        left = seconds - (time.monotonic() - began)
        result = _run_step(step, box, out, left, rehearsal)
        say(f"{result.verdict:<6} {step.part} {step.name:<16} {result.seconds:5.1f} s  {result.why}")
        results.append(result)
        if not rehearsal:
            keep([result], out)  # a lent machine may be taken back before the end
    return results


def _run_step(step: Step, box: Box, out: Path, left: float, rehearsal: bool) -> Result:
    if not rehearsal and box.cards < step.gpus:
        found = f"{box.cards} GPU(s) of {step.gpus}" if box.cards else "no GPU"
        return Result(step.name, "CANNOT", f"{found}: {box.why}" if box.why else found)
    if left <= 0:
        return Result(step.name, "CANNOT", "the time of this part is over")
    told = {CARDS: str(box.cards), REHEARSAL: "1" if rehearsal else "", OUT: str(out)}
    started = time.monotonic()
    limit = min(step.seconds, left)
    code, said = _run(step.command, limit, {**os.environ, **told})
    took = time.monotonic() - started
    (out / f"{step.name}.txt").write_text(said, encoding="utf-8")
    verdict, why = judge(said, code, limit)
    return Result(step.name, verdict, why[:_WHY_LENGTH], took)


def _run(command: tuple[str, ...], seconds: float, environment: dict[str, str]) -> tuple[int | None, str]:
    """The exit code (None: it had to be ended) and what was written. Whatever it has started ends with it."""
    path = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    environment = {**environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            try:
                said, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                said = "(a process that it has started holds its output)"
            return None, said


def judge(said: str, code: int | None, limit: float) -> tuple[str, str]:
    """The verdict on a step that has written this and ended with this code, and one line of why."""
    last = _last_line(said)
    if code is None:
        return "FAIL", f"no end within {limit:.0f} s; last line: {last}"
    verdict, _, why = last.partition(" ")
    if verdict in VERDICTS and (code == 0) == (verdict != "FAIL"):
        return verdict, why
    tested = re.search(r"\b(\d+) passed", last)
    if code == 0 and tested is not None and not re.search(r"\d+ (failed|error)", last):
        return "PASS", last.strip("= ")
    if code in (0, 5) and re.search(r"\d+ (skipped|deselected)", last):
        return "CANNOT", f"nothing was run: {last.strip('= ')}"
    return "FAIL", f"exit code {code}: {last.strip('= ')}"


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "(it wrote nothing)"


def keep(results: Iterable[Result], out: Path) -> dict[str, Result]:
    """Add these to the results that the folder holds of other parts, and return all."""
    file = out / "results.json"
    known: dict[str, Result] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        known = {one["name"]: Result(**one) for one in json.loads(file.read_text(encoding="utf-8"))}
    known.update({one.name: one for one in results})
    file.write_text(json.dumps([asdict(one) for one in known.values()], indent=1), encoding="utf-8")
    return known
