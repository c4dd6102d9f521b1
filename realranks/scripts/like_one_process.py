"""Runs a script to its first optimizer step on several ranks, and in one process with the rows of all of them."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from realranks.doctor.diagnose import with_diagnosis
from realranks.doctor.like_one_process import Comparison, compared_with_one, unlike_one_process
from realranks.doctor.words import at_line
from realranks.outcome.outcome import Kind, Outcome
from realranks.ranks.codec import decode
from realranks.ranks.kernel.gang import Gang, LaunchError
from realranks.ranks.messages import Around
from realranks.scripts.examine import Examination
from realranks.scripts.launching import starts_its_ranks
from realranks.watch.around import COMPARISON, as_first_step


def compare_with_one_process(
    script: str,
    arguments: Sequence[str] = (),
    *,
    ranks: int = 2,
    timeout: float = math.inf,
    method: str = "spawn",
) -> Examination:
    """Compare the first gradients of the ranks with those of one process.

    Args:
        script, arguments, ranks, timeout, method: as `examine` has them; each of the two runs has the whole time.

    Returns:
        The outcome of the ranks' first step, with what the comparison has found; that of a run which failed, with why.

    Raises:
        GangError, LaunchError: the ranks cannot be started, or the script starts them itself.
    """
    if starts_its_ranks(os.path.abspath(script)):
        raise LaunchError(
            f"{os.path.basename(script)} starts its ranks itself, so that one process cannot run it alone: "
            "--like-one-process is for scripts that torchrun starts."
        )
    with tempfile.TemporaryDirectory(prefix="realranks-") as folder:
        several = _run(
            Gang(ranks, init=False, method=method), script, arguments, as_first_step(folder), timeout
        )
        if several.kind is not Kind.OK:
            return Examination(several, ())
        if not (Path(folder) / "0.pt").exists():
            return Examination(
                several, ("not compared with one process: no optimizer of a DDP model made a step",)
            )
        alone = _run(
            Gang(1, init=False, method=method), script, arguments, as_first_step(folder, ranks), timeout
        )
        try:
            told = json.loads((Path(folder) / COMPARISON).read_text(encoding="utf-8"))
        except FileNotFoundError:
            error = next(iter(alone.errors.values()), None)
            how = (
                f"it raises {error.type}{at_line(error.where)}" if error else "it comes to no optimizer step"
            )
            told = {"why_not": f"alone, and with the rows of all ranks, {how}"}
    found = decode(Comparison, told)
    return Examination(replace(several, diagnosis=unlike_one_process(found)), tuple(compared_with_one(found)))


def _run(gang: Gang, script: str, arguments: Sequence[str], around: Around, timeout: float) -> Outcome:
    try:
        gang.wait_ready()
        path = os.path.abspath(script)
        outcome = gang.run_script(path, arguments, timeout=timeout, around=around, repair=False).settled()
    finally:
        gang.stop()
    return with_diagnosis(outcome)
