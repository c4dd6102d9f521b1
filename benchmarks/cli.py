"""`python -m benchmarks`: options, the run, the report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measures, report
from benchmarks.processes import nothing_left_over
from benchmarks.results import COURSE, Report, judge_all
from realranks.ranks.server.zygote import VARIABLE as ZYGOTE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the course's ranks beside other ways to start ranks, taking turns in one run.",
        epilog="Measures: " + "; ".join(f"{name}: {about}" for name, about in measures.ABOUT.items()),
    )
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="repetitions (default 5)")
    parser.add_argument("--quick", action="store_true", help="one repetition, fewer cells, shorter bounds")
    parser.add_argument("--alone", action="store_true", help="measure the course only, without its peers")
    parser.add_argument(
        "--only", action="append", choices=sorted(measures.ABOUT), help="measure this only; may be repeated"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single value")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the table (a page that has the markers keeps the rest of its text)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns 0 also when a goal is missed: a slow machine is not an error."""
    options = _parser().parse_args(arguments)
    plan = measures.QUICK if options.quick else measures.Plan(repeat=max(1, options.repeat))
    if options.alone:
        plan = dataclasses.replace(plan, contenders=(COURSE,))
    # A terminated benchmark tidies up like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A JupyterLab that somebody has open may have a zygote: the measures start what they need themselves.
    os.environ[ZYGOTE] = ""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(nothing_left_over())
        rows = measures.measure(plan, options.only or list(measures.ABOUT), progress=_say)
    finished = Report(report.machine_line(), plan.repeat, tuple(rows), tuple(judge_all(rows)))
    print(report.as_text(finished))
    _say(f"{time.monotonic() - started:.0f} s")
    if options.json:
        options.json.write_text(report.as_json(finished), encoding="utf-8")
    if options.markdown:
        page = options.markdown.read_text(encoding="utf-8") if options.markdown.exists() else ""
        if page and report.BEGIN not in page:
            _say(f"{options.markdown} has no place for the table ({report.BEGIN}): it stays as it is")
            return 2
        options.markdown.write_text(report.placed_in(page, report.as_markdown(finished)), encoding="utf-8")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
