"""The rules of the house, each a test of its own, so that `make test` names the one that is broken."""

import ast
import dataclasses
import fnmatch
import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from course_lib.cli.app import command_line
from course_lib.tasks import all_tasks
from realranks.cli.app import ENGINE
from realranks.doctor.lessons import LESSONS
from realranks.outcome.outcome import Outcome
from tests.support.lesson_code import is_module
from tools.cheatsheet import check_cheat_sheet
from tools.check import check_notebooks
from tools.claims import check_claims
from tools.instructor import check_instructor

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS_LIKE = re.compile(r"^\.venv-|\.egg-info$|_cache$")
NOT_OURS = {
    ".git",
    ".venv",
    "build",
    "dist",
    "__pycache__",
    ".ipynb_checkpoints",
    "learner",
    "mutants",
    "slides",
    "test-results",
    "wheels",
}
TEXT = {".py", ".md", ".ipynb", ".toml", ".yml", ".lock", ".json", ".txt", ".css", ".js", ".html", ".sh", ""}
# Names that say nothing about what is inside; such a file grows for ever.
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def ours(*suffixes: str) -> list[Path]:
    found = []
    for folder, folders, names in ROOT.walk() if hasattr(ROOT, "walk") else _walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in NOT_OURS and not NOT_OURS_LIKE.search(f))
        found += [folder / name for name in sorted(names) if (folder / name).suffix in (suffixes or TEXT)]
    return found


def _walk(top: Path):
    """Path.walk is new in Python 3.12."""
    import os

    return ((Path(folder), folders, names) for folder, folders, names in os.walk(top))


def test_code_to_copy_says_where_a_checkpoint_is_to_go():
    """Without `map_location` all ranks load onto the GPU that has saved it; one line of lesson 14 shows just that."""
    given = ("lesson", "exercises")
    found = [
        line.strip()
        for folder in ("course_lib/lessons", "exercises", "solutions", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".html") and ("course_lib" not in path.parts or path.stem in given)
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"torch\.load\((?!\.\.\.)\w(?!.*map_location)", line) and not line.startswith("#")
    ]
    assert found == ['torch.load(f"{folder}/from_gpu_7.pt")']


def test_tests_use_public_names_of_the_course():
    private = re.compile(r"^ *from (?:course_lib|realranks)[\w.]* import .*\b_\w+", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT)): private.findall(path.read_text(encoding="utf-8"))
        for path in ours(".py")
        if path.is_relative_to(ROOT / "tests")
    }
    assert {path: names for path, names in found.items() if names} == {}


def run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} says:\n{done.stdout}{done.stderr}"


def test_the_code_is_formatted():
    run("ruff", "format", "--check", ".")


def test_the_code_is_free_of_lint():
    run("ruff", "check", "--output-format=concise", ".")


@pytest.mark.slow
@pytest.mark.timeout(400)  # the first time mypy reads all of torch
def test_the_types_are_right():
    run("mypy", "--strict")


def test_the_doctor_points_to_the_lessons_that_there_are():
    titles = {}
    for source in sorted((ROOT / "course_lib/lessons").glob("*/lesson.py")):
        number, title = re.search(
            r"^# # (\d\d) · (.*)$", source.read_text(encoding="utf-8"), re.MULTILINE
        ).groups()
        titles[int(number)] = f"lesson {number}, {title}"
    assert set(LESSONS) == set(titles)
    for number, pointer in LESSONS.items():
        assert titles[number].startswith(pointer), titles[number]


def test_the_notebooks_match_their_sources():
    assert check_notebooks(ROOT) == []


def test_every_claim_is_shown_by_its_lesson_and_the_page_of_claims_is_what_the_notebooks_give():
    assert check_claims(ROOT) == []


def test_every_lesson_has_a_rule_of_thumb_and_the_cheat_sheet_holds_them():
    assert check_cheat_sheet(ROOT) == []


def test_the_instructor_s_pages_are_what_lessons_and_tasks_give():
    assert check_instructor(ROOT) == []


def test_the_page_of_the_public_api_names_what_there_is():
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`ddp-course ([\w-]+)`", page)) == set(command_line().list_commands(None))
    assert set(re.findall(r"`realranks ([\w-]+)`", page)) == ENGINE.modules.keys()
    for module, names in re.findall(
        r"`from ((?:course_lib|realranks)[.\w]*) import \.\.\.`.*?\n((?:\|.*\n)+)", page
    ):
        for row in names.splitlines()[1:]:
            for name in re.findall(r"`(\w+)`", row.split("|")[1]):
                assert hasattr(importlib.import_module(module), name) or importlib.import_module(
                    f"{module}.{name}"
                )
    given = {f.name for f in dataclasses.fields(Outcome)} | set(dir(Outcome))
    (row,) = re.findall(r"^\| `Outcome` \| (.*) \|$", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) <= given


def test_no_file_is_a_drawer_for_everything():
    assert [str(p.relative_to(ROOT)) for p in ours(".py") if p.stem in DRAWERS] == []


def test_every_module_of_the_course_has_a_door_sign():
    packages = (ROOT / "course_lib", ROOT / "realranks")
    modules = [path for path in ours(".py") if any(map(path.is_relative_to, packages)) and is_module(path)]
    silent = [
        p.relative_to(ROOT) for p in modules if not p.read_text(encoding="utf-8").lstrip().startswith('"""')
    ]
    assert silent == []


def test_docstrings_of_functions_say_what_the_function_does():
    """ruff's D401 takes How, Who, Where and When for the imperative; it names the rooms that are not done."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    later = [pattern for pattern, rules in lint["per-file-ignores"].items() if "D401" in rules]
    modules = {
        str(path.relative_to(ROOT)): path
        for path in ours(".py")
        if "tests" not in path.parts and is_module(path)
    }
    found = [
        f"{name}:{node.lineno}"
        for name, path in modules.items()
        if name.startswith(("benchmarks/", "course_lib/", "realranks/", "tools/"))
        and not any(fnmatch.fnmatch(name, pattern) for pattern in later)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(ast.unparse(mark).startswith("check(") for mark in node.decorator_list)
        and re.match(r"(What|How|Who|Whose|Where|When|Which|Why|The same)\b", ast.get_docstring(node) or "")
    ]
    assert found == []


def test_no_file_tells_on_which_machine_it_was_written():
    here = {str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix} - {"/", "/usr", "/usr/local"}
    told = re.compile("|".join(rf"{re.escape(path)}(?![\w-])" for path in here if len(Path(path).parts) > 1))
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in ours()
        if (match := told.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert found == []


def test_the_index_says_what_each_lesson_builds_on_and_how_long_it_takes():
    rows = re.findall(
        r"^\| (\d\d) \| \[.*?\]\((\S+?)\) \| .*? \|(.*?)\| (.*?) \|",
        markdown(ROOT / "notebooks/index.ipynb"),
        re.MULTILINE,
    )
    assert [name for _, name, _, _ in rows] == sorted(p.name for p in ROOT.glob("notebooks/[0-9]*.ipynb"))
    for number, name, after, minutes in rows:
        text = markdown(ROOT / "notebooks" / name)
        said = re.search(r"\*\*Before this:\*\*([^.;:]*)", text)
        if number != "18":
            assert re.findall(r"\d\d", said[1] if said else "") == re.findall(r"\d\d", after), name
            assert f" {minutes} minutes" in " ".join(text.split()), name


def test_the_readme_says_how_many_tasks_each_lesson_has():
    told = re.findall(
        r"\[(\d+) tasks?\]\(exercises/(\w+)\.ipynb\)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert {stem: int(number) for number, stem in told} == Counter(task.lesson for task in all_tasks())


def markdown(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
