"""The engine is a package of its own: it knows nothing of the course, and needs neither it nor torch."""

import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "realranks"
PROJECT = tomllib.loads((ENGINE / "pyproject.toml").read_text(encoding="utf-8"))
COURSE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
#: What the engine is to do without, in an environment that has none of it.
ABSENT = ("torch", "numpy", "IPython", "matplotlib", "course_lib")


def test_the_engine_does_not_name_the_course():
    """Neither in an import, early or late, nor in a string, nor to its readers."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(ENGINE.rglob("*"))
        if path.suffix in (".py", ".toml", ".js", ".cfg") and path.name != "pyproject.toml"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "course_lib" in line
    ]
    assert found == []


def test_its_pyproject_names_all_its_packages():
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in ENGINE.rglob("__init__.py")}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == there


def test_both_distributions_agree():
    ours, theirs = PROJECT["project"], COURSE["project"]
    assert ours["version"] == theirs["version"]
    assert ours["scripts"].items() <= theirs["scripts"].items()
    assert ours["entry-points"] == theirs["entry-points"]
    both = [*theirs["dependencies"], *theirs["optional-dependencies"]["attach"]]
    given = {canonicalize_name(each.name): each.specifier for each in map(Requirement, both)}
    for asked in map(Requirement, [*ours["dependencies"], *ours["optional-dependencies"]["notebook"]]):
        assert given[canonicalize_name(asked.name)] == asked.specifier


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """`pip install ./realranks` into an empty folder, which leaves nothing in the checkout's packages."""
    folder = tmp_path_factory.mktemp("engine")
    source = folder / "checkout/realranks"
    shutil.copytree(ENGINE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    target = folder / "site"
    words = ("install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, str(source)]
    done = subprocess.run(pip, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(source.rglob("build")), "a copy of the files among the files"
    return target


def test_what_is_installed_is_the_engine(installed):
    folders = {path.name for path in installed.iterdir() if path.is_dir() and path.suffix != ".dist-info"}
    assert folders == {"realranks", "bin"}
    assert files_of(installed / "realranks") == files_of(ENGINE)
    (distribution,) = importlib.metadata.distributions(path=[str(installed)])
    asked = {
        canonicalize_name(Requirement(each).name) for each in distribution.requires if "extra ==" not in each
    }
    assert asked == {"cloudpickle", "platformdirs", "psutil", "py-spy", "rich", "typer"}


@pytest.mark.parametrize(
    "words",
    [("--help",), ("attach", "--help"), ("doctor", "--help"), ("host", "--help"), ("--version",)],
    ids=" ".join,
)
def test_its_commands_need_nothing_that_an_environment_may_lack(installed, tmp_path, words):
    done = without(ABSENT, "from realranks.cli import main; main()", installed, tmp_path, *words)
    assert done.returncode == 0, done.stderr


def test_it_is_imported_without_them(installed, tmp_path):
    modules = (
        "realranks.doctor",
        "realranks.scripts.external",
        "realranks.pytest_ranks.plugin",
        "realranks",
    )
    code = f"import {', '.join(modules)}; print(realranks.__file__)"
    done = without(ABSENT, code, installed, tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_what_needs_a_notebook_says_so(installed, tmp_path):
    done = without(ABSENT, "from realranks.cli import main; main()", installed, tmp_path, "export", "x.ipynb")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "This needs IPython: pip install 'realranks[notebook]'\n"


def files_of(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.suffix in (".py", ".js")}


def without(names: tuple[str, ...], code: str, installed: Path, folder: Path, *words: str):
    """Run this in an environment that has the engine from `installed`, and none of the modules of these names."""
    gone = f"import sys; sys.modules.update(dict.fromkeys({names!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", gone + code, *words],
        cwd=folder,
        env={"PYTHONPATH": str(installed), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
