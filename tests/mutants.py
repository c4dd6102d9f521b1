"""`make mutants`: break rules on purpose, one small change at a time, and see whether a cheap test notices.

mutmut makes the changes and runs the tests that reach each; `[tool.mutmut]` in `pyproject.toml` says which files and
which tests. What is added here is the draw: all mutants of those files would take hours, so some are drawn, from each
file in proportion to what it has, always the same ones for the same seed and files. A run that was interrupted goes on
where it was. Exit code 0: the run is over, whatever its score; it is a report, no check.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

#: How the table calls what mutmut calls otherwise. A mutant that never ends was noticed, too.
_COLUMNS = {
    "killed": "killed",
    "timeout": "killed",
    "segfault": "killed",
    "survived": "survived",
    "no tests": "not reached",
}


def draw(mutants: Mapping[str, Sequence[str]], number: int, seed: int, only: str = "*") -> list[str]:
    """About `number` mutants of the files that fit, from each in proportion and at least one, in chance order."""
    mutants = {file: names for file, names in mutants.items() if fnmatchcase(file, only)}
    chance = random.Random(seed)
    total = sum(map(len, mutants.values()))
    drawn: list[str] = []
    for file in sorted(mutants):
        names = sorted(mutants[file])
        share = max(1, round(number * len(names) / total))
        drawn += chance.sample(names, min(len(names), share))
    chance.shuffle(drawn)
    return drawn


def table(found: Iterable[tuple[str, str]]) -> list[str]:
    """(file, what became of a mutant of it) to the lines of a table with a row for each room and one for all."""
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for file, status in found:
        for row in (str(PurePath(file).parent), "all"):
            rooms[row][_COLUMNS.get(status, status)] += 1
    lines = ["| room | mutants run | killed | survived | score | not reached | other |", "| --- " * 7 + "|"]
    for room in sorted(rooms, key=lambda room: (room == "all", room)):
        count = rooms[room]
        run = count["killed"] + count["survived"]
        score = f"{count['killed'] / run:.0%}" if run else "-"
        other = count.total() - run - count["not reached"]
        cells = [room, run, count["killed"], count["survived"], score, count["not reached"], other]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def main() -> None:
    """Draw, run, and print the survivors and the table."""
    parser = argparse.ArgumentParser(prog="make mutants", description="Mutation tests on a draw of mutants.")
    parser.add_argument("--number", type=int, default=500, help="how many to draw (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--only", default="*", help="files that fit, such as 'course_lib/doctor/*'")
    parser.add_argument(
        "--again", action="store_true", help="run those once more that survived an earlier run"
    )
    parser.add_argument("--report", action="store_true", help="run nothing: what earlier runs have found")
    asked = parser.parse_args()

    from mutmut import __main__ as mutmut  # in the environment of make mutants only
    from mutmut.stats import status_by_exit_code

    collect = mutmut.collect_source_file_mutation_data

    def drawn() -> tuple[list[Any], Any]:
        mutants, files = collect(mutant_names=())
        by_file = {str(f.path): list(f.exit_code_by_key) for f in files.values() if f.exit_code_by_key}
        names = draw(by_file, asked.number, asked.seed, asked.only)
        order = {name: place for place, name in enumerate(names)}
        chosen = [one for one in mutants if one[1] in order]
        return sorted(chosen, key=lambda one: order[one[1]]), files

    def to_run(*, mutant_names: Sequence[str]) -> tuple[list[Any], Any]:
        mutants, files = drawn()
        forget = ("survived", "no tests", "suspicious") if asked.again else ()
        return [
            (file, name, None if status_by_exit_code[code] in forget else code)
            for file, name, code in mutants
        ], files

    mutmut.collect_source_file_mutation_data = to_run
    mutmut.estimated_worst_case_time = lambda name: (
        0.0
    )  # in the order of the draw, so that half a run is a draw as well
    if not asked.report:
        mutmut._run((), 1)
    found = [(str(file.path), name, status_by_exit_code[code]) for file, name, code in drawn()[0]]
    for path, name, status in sorted(found):
        if status not in ("killed", "timeout", "no tests", "not checked"):
            print(status, path, name)
    print(*table((path, status) for path, _, status in found), sep="\n")


if __name__ == "__main__":
    main()
