"""What came of the steps, as a text to paste: the machine, a line per step, and how those that failed have ended."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools.gpu_day.running import VERDICTS, Box, Result
from tools.gpu_day.steps import PARTS, STEPS

#: How much of what a failed step has written is quoted: enough for a traceback.
_LINES, _CHARACTERS = 25, 3000


def report(results: Mapping[str, Result], box: Box, out: Path) -> str:
    """The text; `out` is the folder with what each step has written."""
    gpus = f"{box.cards} x {box.device}, driver {box.driver}" if box.cards else f"none: {box.why}"
    ran = [step for step in STEPS if step.name in results]
    count = Counter(results[step.name].verdict for step in ran)
    numbers = ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS)
    lines = [
        f"ddp-course {_version('ddp-course')}: what was found out about GPUs",
        f"machine  {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        f"GPUs     {gpus}",
        f"torch    {box.torch or _version('torch')}, NCCL {box.nccl or 'not used: no GPU'}",
        f"Jupyter  IPython {_version('ipython')}, ipykernel {_version('ipykernel')}",
        f"steps    {numbers}, {len(STEPS) - len(ran)} not run",
    ]
    for part, about in PARTS.items():
        mine = [step for step in ran if step.part == part]
        lines += ["", f"Part {part}: {about}", *([] if mine else ["not run"])]
        for step in mine:
            result = results[step.name]
            lines.append(f"{result.verdict:<6} {step.name:<16} {result.seconds:5.1f} s  {result.why}")
    for step in ran:
        if results[step.name].verdict == "FAIL":
            lines += [
                "",
                f"--- {step.name}: the last lines that it has written",
                _tail(out / f"{step.name}.txt"),
            ]
    return "\n".join(lines) + "\n"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _tail(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "(nothing was kept)"
    return "\n".join(text.rstrip().splitlines()[-_LINES:])[-_CHARACTERS:]
