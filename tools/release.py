"""`python -m tools.release TAG ADDRESS`: build what a tag publishes, both distributions, into dist/NAME.

First it is checked that all places say the tag's version, and the address of the repository that publishes it. Each
wheel is built from its source distribution, which is thereby shown to be complete. Needs setuptools and pip.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Distribution -> folder of its pyproject.toml.
DISTRIBUTIONS = {"ddp-course": ".", "realranks": "realranks"}


def problems(course: Path, tag: str, address: str) -> Iterator[str]:
    """Yield what is not as a release with this tag from this repository needs it."""
    version = tag.removeprefix("v")
    if (course / "dist").exists():
        yield "dist: it is there, from an earlier build; remove it"
    for folder in DISTRIBUTIONS.values():
        project = tomllib.loads((course / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        if f"v{project['version']}" != tag:
            yield f"{folder}/pyproject.toml: the version is {project['version']}, the tag {tag}"
        if (found := project.get("urls", {}).get("Repository")) != address:
            yield f"{folder}/pyproject.toml: Repository is {found}; write it: python -m tools.repository {address}"
    if f"\nversion: {version}\n" not in (course / "CITATION.cff").read_text(encoding="utf-8"):
        yield f"CITATION.cff: the version is not {version}"
    if f"\n## [{version}]" not in (course / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md: there is no heading [{version}]"


def build(course: Path) -> None:
    """Build a source distribution and a wheel of each distribution."""
    for name, folder in DISTRIBUTIONS.items():
        out = (course / "dist" / name).resolve()
        out.mkdir(parents=True)
        code = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, out], cwd=course / folder, check=True, stdout=sys.stderr)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index"]
        (source,) = out.iterdir()
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-w", out, source], cwd=out, check=True)
        print(*(f"dist/{name}/{path.name}" for path in sorted(out.iterdir())), sep="\n")


def main(words: Sequence[str]) -> int:
    """Check and build; 1 where something has to be changed first."""
    tag, address = words
    course = Path.cwd()
    if found := [*problems(course, tag, address)]:
        print(*found, sep="\n", file=sys.stderr)
        return 1
    build(course)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
