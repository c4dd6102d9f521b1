"""A run's results as text for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import psutil

from benchmarks.results import COURSE, Report, Row, Sample, number, times

_PACKAGES = ("torch", "accelerate", "ipyparallel", "ipykernel")


def machine_line() -> str:
    """Describe the machine as far as the numbers depend on it, without identifying it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = psutil.virtual_memory().total / 2**30
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        f"{cores} cores, {memory:.0f} GB memory, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {packages}{load}"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _median(sample: Sample, unit: str) -> str:
    if not sample.values:
        return "failed"
    return f"> {number(sample.median, unit)}" if sample.at_least else number(sample.median, unit)


def _spread(sample: Sample, unit: str) -> str:
    if len(sample.values) < 2 or sample.at_least:
        return ""
    low, high = sample.spread
    return f"{number(low, unit).removesuffix(' ' + unit)} - {number(high, unit)}"


def _ratio(row: Row, contender: str) -> str:
    ratio = None if contender == COURSE else row.ratio(contender)
    if ratio is None:
        return ""
    return f"> {times(ratio)}" if row.samples[contender].at_least else times(ratio)


def _lines(row: Row) -> list[tuple[str, str, str, str, str]]:
    return [
        (name, _median(sample, row.unit), _spread(sample, row.unit), _ratio(row, name), sample.remark)
        for name, sample in row.samples.items()
    ]


_HEADINGS = ("", "median", "min - max", "to course", "")


def as_text(report: Report) -> str:
    """Format the table for a terminal: a block for each measure, then the goals."""
    widths = [
        max(len(line[column]) for row in report.rows for line in [_HEADINGS, *_lines(row)])
        for column in range(4)
    ]
    blocks = [report.machine, f"{report.repeat} repetitions, contenders taking turns; smaller is better"]
    for row in report.rows:
        lines = [row.title]
        for line in [_HEADINGS, *_lines(row)]:
            cells = [line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in (1, 2, 3)), line[4]]
            lines.append("  " + "  ".join(cells).rstrip())
        blocks.append("\n".join(lines))
    if report.goals:
        blocks.append(
            "\n".join(["Goals", *(f"  {_met(g.met):8}{g.goal}: {g.observed}" for g in report.goals)])
        )
    return "\n\n".join(blocks)


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"


def as_markdown(report: Report) -> str:
    """Format the table as Markdown, with the goals."""
    lines = [f"{report.machine}. {report.repeat} repetitions, contenders taking turns.", ""]
    lines += ["| measure | who | median | min - max | to course | remark |", "|---|---|--:|--:|--:|---|"]
    for row in report.rows:
        title = f"**{row.title}**"
        for line in _lines(row):
            lines.append("| " + " | ".join([title, *line]).replace("  ", " ") + " |")
            title = ""
    lines += ["", "| goal | observed | |", "|---|--:|---|"]
    lines += [f"| {judged.goal} | {judged.observed} | {_met(judged.met)} |" for judged in report.goals]
    return "\n".join(lines) + "\n"


def as_json(report: Report) -> str:
    """Format every single value, for comparing runs."""
    return json.dumps(dataclasses.asdict(report), indent=2) + "\n"


BEGIN, END = "<!-- benchmarks: written by --markdown -->", "<!-- benchmarks: end -->"


def placed_in(page: str, table: str) -> str:
    """Put the table between the page's two markers; a page without them becomes the table."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return table
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"
