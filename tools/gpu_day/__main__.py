"""`python -m tools.gpu_day`: the command line of `make test-gpu`."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from pathlib import Path

from tools.gpu_day import page
from tools.gpu_day.report import report
from tools.gpu_day.running import keep, look_at_the_machine, run_steps
from tools.gpu_day.steps import PARTS, ROOT, STEPS


def main() -> int:
    """Run the parts that are wanted; 1 where a step has failed, else 0."""
    options = _options().parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report:
        text = report(keep([], options.out), look_at_the_machine(), options.out)
        (options.out / "report.txt").write_text(text, encoding="utf-8")
        print(text, end="")
        return 0
    wanted = [
        step
        for step in STEPS
        if options.part in (None, step.part) and (not options.step or step.name in options.step)
    ]
    if not wanted:
        print("There is no such step.")
        return 2
    started = time.monotonic()
    box = look_at_the_machine()
    seconds = 60 * options.minutes if options.minutes else None
    results = run_steps(
        wanted, box, options.out, lambda line: print(line, flush=True), options.rehearse, seconds
    )
    count = Counter(result.verdict for result in results)
    numbers = f"{count['PASS']} PASS, {count['FAIL']} FAIL, {count['CANNOT']} CANNOT"
    took = f"in {time.monotonic() - started:.0f} s"
    if options.rehearse:
        print(f"Rehearsal on the CPU with gloo, which says nothing of a GPU: {numbers}, {took}.")
    elif not box.cards:
        print(f"No GPU: {numbers}, {took}. Nothing was found out, and docs/gpu.md is as it was.")
    else:
        text = page.write(keep(results, options.out), box)
        (options.out / "gpu.md").write_text(text, encoding="utf-8")
        print(f"{numbers}, {took}. Written to docs/gpu.md; what each step has written is in {options.out}.")
    return 1 if count["FAIL"] else 0


def _options() -> argparse.ArgumentParser:
    parts = "; ".join(f"{number}: {about}" for number, about in PARTS.items())
    parser = argparse.ArgumentParser(prog="make test-gpu", description=__doc__, epilog=parts)
    parser.add_argument("--part", type=int, choices=sorted(PARTS), help="only this part; all without it")
    parser.add_argument("--step", action="append", help="only this step; may be given several times")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(os.environ.get("OUT") or ROOT / "gpu-day"),
        help="folder for what steps write, and for the results of earlier parts",
    )
    parser.add_argument("--minutes", type=float, help="how long a part may take (default: 8)")
    parser.add_argument(
        "--report", action="store_true", help="run nothing; print what came of all parts, as a text to paste"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="run the steps on the CPU with gloo, to see that they work"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
