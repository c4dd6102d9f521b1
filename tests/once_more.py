"""`python -m tests.once_more FILE...`: run what failed once more, each alone; what then passes is called UNSTABLE.

The files are JUnit reports. A test is run again by itself, in a process of its own; the cells of a
notebook need each other, so a notebook is run again as a whole. One unstable test of thousands must not cost a day's
work, and must not go unseen: it is printed by name. More than `MAX_UNSTABLE` of them are no accident any more.

Exit code 0: everything has passed by now. 1: something failed twice, or too much was unstable.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

MAX_UNSTABLE = 3
ROOT = Path(__file__).resolve().parents[1]
#: pytest's: all passed; some failed. Anything else is no verdict on tests.
PASSED, FAILED = 0, 1


def failed_in(report: Path) -> list[str]:
    """What to hand to pytest for everything that failed in a JUnit report: tests, or whole notebooks."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        if has_failed(case):
            found[_address(case.get("classname", ""), case.get("name", ""))] = None
    return list(found)


def has_failed(case: ET.Element) -> bool:
    """Whether a test of a JUnit report has failed, or could not be run."""
    return case.find("failure") is not None or case.find("error") is not None


def _address(place: str, name: str) -> str:
    """`tests.unit.test_cli` and `test_x[a]` to `tests/unit/test_cli.py::test_x[a]`; a cell to its notebook's file."""
    if place.endswith(".ipynb"):
        folder, _, notebook = place.removesuffix(".ipynb").rpartition(".")
        return f"{folder.replace('.', '/')}/{notebook}.ipynb"
    if not place:  # a module that could not even be collected
        return f"{name.replace('.', '/')}.py"
    parts = place.split(".")
    # Classes of tests, should there ever be any, follow the module's name.
    module = max(
        i for i in range(len(parts) + 1) if i == 0 or (ROOT / Path(*parts[:i])).with_suffix(".py").is_file()
    )
    return "::".join([f"{'/'.join(parts[:module])}.py", *parts[module:], name])


def run_alone(address: str) -> bool:
    """True when pytest passes on this address in a process of its own."""
    command = [sys.executable, "-m", "pytest", "--nbval", "-p", "no:cacheprovider", "-q", address]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == PASSED


def once_more(
    addresses: Sequence[str], run: Callable[[str], bool] = run_alone
) -> tuple[list[str], list[str]]:
    """Those that pass now, and those that fail again."""
    unstable: list[str] = []
    broken: list[str] = []
    for address in addresses:
        (unstable if run(address) else broken).append(address)
    return unstable, broken


def verdict(unstable: Sequence[str], broken: Sequence[str]) -> tuple[int, list[str]]:
    """The exit code, and the lines that say why."""
    lines = [f"UNSTABLE  {address}: failed, and passed when it was run once more" for address in unstable]
    lines += [f"FAILED    {address}: twice" for address in broken]
    if len(unstable) > MAX_UNSTABLE:
        lines.append(f"{len(unstable)} unstable tests are more than {MAX_UNSTABLE}: that is no accident.")
    good = not broken and len(unstable) <= MAX_UNSTABLE
    lines.append(
        f"{'passed' if good else 'FAILED'}: {len(unstable)} unstable, {len(broken)} failed twice"
        if unstable or broken
        else "FAILED: the first run says that something failed, and its report names nothing"
    )
    return (PASSED if good and unstable else FAILED), lines


def main(arguments: Sequence[str]) -> int:
    """Run what failed in the reports once more, and say how it went."""
    try:
        addresses = [address for name in arguments for address in failed_in(Path(name))]
    except (OSError, ET.ParseError) as error:
        print(f"FAILED: no report of the first run ({error})")
        return FAILED
    if len(addresses) > 4 * MAX_UNSTABLE:
        print(f"FAILED: {len(addresses)} tests, too many to be run once more")
        return FAILED
    print(f"Running once more, alone: {', '.join(addresses)}", flush=True)
    code, lines = verdict(*once_more(addresses))
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
