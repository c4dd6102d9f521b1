"""`make platforms`: run all notebooks on other releases and builds of torch, and write docs/platforms.md's table.

A row is one run of `make test` over lessons, exercises and solutions: strictly compared by nbval. What a row says comes
from pytest's report and from that environment's own torch. Rows that were not run this time stay as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tests.once_more import has_failed

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "platforms.md"
#: Releases of torch, as `make test TORCH=...` takes them (none: the locked one), and variables of the run.
RUNS: tuple[tuple[str, str], ...] = (
    ("", "ATEN_CPU_CAPABILITY=default"),
    ("", "ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE"),
    ("", "ATEN_CPU_CAPABILITY=avx512 MKL_CBWR=AVX2"),
    ("", "ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2"),
    ("2.14.1", ""),
    ("2.15.0", ""),
)
_ABOUT = "import torch; print(torch.__version__.partition('+')[0], torch.version.cuda or '')"


def counted(report: Path) -> tuple[int, list[str]]:
    """How many cells agree in a JUnit report, and which do not."""
    cells = [*ET.parse(report).iter("testcase")]
    bad = [
        f"{cell.get('classname', '').split('.')[-2]}, {cell.get('name', '').lower()}"
        for cell in cells
        if has_failed(cell)
    ]
    return len(cells) - len(bad), bad


def row(about: str, variables: str, cells: int, bad: Sequence[str], commit: str, day: str) -> str:
    """One line of the table."""
    release, _, cuda = about.strip().partition(" ")
    build = f"CUDA {cuda}, no GPU used" if cuda else "CPU"
    build += f", `{variables}`" if variables else ""
    result = (
        f"{cells} cells agree"
        if not bad
        else f"{cells} of {cells + len(bad)} cells agree; not: {'; '.join(bad)}"
    )
    return f"| {release} | {build} | {day}, {commit} | {result} |"


def replaced(page: str, new: str) -> str:
    """The page with this row: in the place of the one of the same release and build, or below the last."""
    same = "|".join(new.split("|")[:3])
    lines = page.splitlines()
    rows = [number for number, line in enumerate(lines) if re.match(r"\| \d+\.\d+", line)]
    old = next((number for number in rows if lines[number].startswith(f"{same}|")), None)
    if old is None:
        lines.insert(rows[-1] + 1, new)
    else:
        lines[old] = new
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int:
    """Run those whose release or variables contain one of the words (all without any); 1 where a cell differs."""
    parser = argparse.ArgumentParser(prog="make platforms", description=__doc__)
    parser.add_argument("words", nargs="*", help="only these releases, or variables with this word in them")
    chosen = parser.parse_args(words).words
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    worst = 0
    for torch, variables in RUNS:
        if chosen and not any(word in f"{torch} {variables}" for word in chosen):
            continue
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            environment = {**os.environ, **dict(each.split("=") for each in variables.split())}
            what = f"ARGS=notebooks exercises solutions --junitxml={report}"
            subprocess.run(["make", "test", f"TORCH={torch}", what], cwd=ROOT, env=environment, check=False)
            if not report.exists():
                print(f"{torch} {variables}: no report", file=sys.stderr)
                worst = 1
                continue
            cells, bad = counted(report)
        python = ROOT / (f".venv-torch-{torch}" if torch else ".venv") / "bin" / "python"
        about = subprocess.check_output([python, "-c", _ABOUT], text=True)
        new = row(about, variables, cells, bad, commit, f"{date.today():%d %B %Y}".lstrip("0"))
        PAGE.write_text(replaced(PAGE.read_text(), new))
        print(new)
        worst |= bool(bad)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
