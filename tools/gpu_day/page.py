"""docs/gpu.md: the table of the steps and what came of them, between two marks; the rest is written by hand."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from tools.gpu_day.running import Box, Result
from tools.gpu_day.steps import PARTS, ROOT, STEPS

PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- written by make test-gpu -->", "<!-- end of what make test-gpu writes -->"
NOT_RUN = "not run yet"


def table(results: Mapping[str, Result], box: Box | None = None) -> str:
    """What stands between the marks: the machine, and a table per part."""
    lines = [BEGIN, "", f"**Machine:** {_machine(box)}"]
    for part, about in PARTS.items():
        lines += [
            "",
            f"### Part {part}: {about}",
            "",
            "| step | what it finds out | result |",
            "| --- | --- | --- |",
        ]
        for step in (step for step in STEPS if step.part == part):
            result = results.get(step.name)
            came = f"{result.verdict}: {_cell(result.why)}" if result is not None else NOT_RUN
            lines.append(f"| `{step.name}` | {step.what} | {came} |")
    return "\n".join([*lines, "", END])


def _machine(box: Box | None) -> str:
    if box is None or not box.cards:
        return f"{NOT_RUN}."
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return f"{box.cards} x {box.device}, driver {box.driver}, torch {box.torch}, on {date}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write(results: Mapping[str, Result], box: Box) -> str:
    """Bring the page up to date; returns its text."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    text = before + table(results, box) + after
    PAGE.write_text(text, encoding="utf-8")
    return text
