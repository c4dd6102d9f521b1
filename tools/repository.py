"""`python -m tools.repository ADDRESS`: write the repository's address into pyproject.toml and what repeats it.

These files are read without pyproject.toml: by a package index, a reader, Kaggle. In each, the line that needs the
address holds the word ADDRESS, and is a comment where it would be wrong without one, until the address is written.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.pages import write_page

FILES = (
    "pyproject.toml",
    "realranks/pyproject.toml",
    "CITATION.cff",
    "README.md",
    "docs/pypi.md",
    "deploy/kaggle/kaggle_gpus.ipynb",
)
_PLACEHOLDER = "ADDRESS"
#: A web address of a host, an owner and a name.
_ADDRESS = re.compile(r"https://[\w.-]+(?:/[\w.-]+){2,}(?<!\.git)")


def repository(course: Path) -> str:
    """Return the address of the course's repository, or '' while it has none."""
    project = tomllib.loads((course / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Repository", ""))


def with_address(text: str, old: str, new: str) -> str:
    """Return the text with another address, or for the first time with one, in the lines that hold one."""
    lines = text.splitlines(keepends=True)
    return "".join(_uncommented(line).replace(old, new) if old in line else line for line in lines)


def _uncommented(line: str) -> str:
    return re.sub(r"^(?:# |<!-- )(.*?)(?: -->)?$", r"\1", line)


def main(words: Sequence[str]) -> int:
    """Write the address into all files; 2 where it is not an address of a repository."""
    if len(words) != 1 or not _ADDRESS.fullmatch(words[0]):
        print(
            "python -m tools.repository ADDRESS, as https://, host, owner and name, without .git",
            file=sys.stderr,
        )
        return 2
    course = Path.cwd()
    old = repository(course) or _PLACEHOLDER
    for name in FILES:
        path = course / name
        write_page(path, with_address(path.read_text(encoding="utf-8"), old, words[0]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
