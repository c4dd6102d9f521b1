"""Every line that a page or a lesson gives for a shell is run by a test, or listed with the reason why not."""

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from course_lib.cli.app import COMMANDS
from course_lib.syllabus import LESSONS
from realranks.cli.app import ENGINE
from tests.support.shell_lines import TABLE, pages, prose, shell_lines
from tests.unit.test_house import ours

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"(ddp-course|realranks) ([\w-]+)")
TESTS = re.compile(r"python -m pytest\b")


@cache
def lines_of(page: Path) -> tuple[str, ...]:
    return tuple(shell_lines(prose(page)))


def everywhere() -> set[str]:
    return {line for page in pages(ROOT) for line in lines_of(page)}


def test_what_is_a_line_for_a_shell():
    page = (
        "Say `make  lab\nARGS=x`, `torchrun`, `for x in y` or `!pip install a`:\n\n"
        "    NAME=1 ddp-course check a   # of b\n    DDP_X=1 \\\n      python x.py\n\n"
        "    Diagnosis: make it\n\n```bash\n# no\nls *\n```\n\n    !srun a\n    %%ranks 2\n"
    )
    assert [*shell_lines(page)] == [
        "ls *",
        "NAME=1 ddp-course check a",
        "DDP_X=1 python x.py",
        "srun a",
        "make lab ARGS=x",
        "pip install a",
    ]


def test_each_line_is_listed_once_and_nothing_else_is():
    listed = Counter(line for lines in (*TABLE["by"].values(), *TABLE["cannot"].values()) for line in lines)
    listed.update(line for lines in (TABLE["same"], *TABLE["run"].values()) for line in lines)
    assert [line for line, count in listed.items() if count > 1] == []
    known = {
        line for line in everywhere() if NAME.fullmatch(line) or line.startswith("make ") or TESTS.match(line)
    }
    assert everywhere() - known - listed.keys() == set(), (
        "say in tests/support/shell_lines.toml how it is run"
    )
    assert listed.keys() - everywhere() == set(), "no page says so any more"


def test_what_is_the_same_has_no_option_of_its_own():
    typed = {line for lines in TABLE["run"].values() for line in lines}
    for line, like in TABLE["same"].items():
        assert like in typed
        program, options = line.split()[0], set(re.findall(r" (--?[a-z-]+)", line))
        assert program in like.split()
        assert options <= set(re.findall(r" (--?[a-z-]+)", like))


def test_a_test_that_runs_a_line_is_there_and_has_a_word_of_it():
    for name, lines in TABLE["by"].items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for line in lines:
            assert any(word in text for word in re.findall(r"[a-z_]{4,}", line)), (name, line)


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda path: path.name)
def test_a_description_behind_a_line_is_a_comment(page):
    """Who copies the whole line would otherwise pass it on as arguments."""
    assert [line for line in lines_of(page) if "  " in line] == []


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda path: path.name)
def test_commands_and_targets_that_are_named_exist(page):
    named = {match.groups() for line in lines_of(page) if (match := NAME.match(line))}
    assert named <= {("ddp-course", name) for name in COMMANDS} | {
        ("realranks", name) for name in ENGINE.modules
    }
    for line in {line for line in lines_of(page) if line.startswith("make ")}:
        done = subprocess.run(
            ["bash", "-c", line.replace("make", "make -n", 1)], cwd=ROOT, capture_output=True
        )
        assert done.returncode == 0, (line, done.stderr)
    for line in {line for line in lines_of(page) if TESTS.match(line)}:
        places = [ROOT / place for place in re.findall(r"(?:tests|notebooks)/\S+", line)]
        files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
        assert all(place.exists() for place in places), line
        texts = [f"{file} {file.read_text(encoding='utf-8')}" for file in files]
        texts += [
            str(task).replace("/answers", "")
            for task in LESSONS.glob("*/answers/*")
            if "tests/answers" in line
        ]
        for word in set(re.findall(r"-k ([\w/]+)", line)) - TABLE["placeholders"].keys():
            assert any(word in text for text in texts), line


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda path: path.name)
def test_what_a_reader_must_replace_is_said_beside_it(page):
    words = re.compile(rf"(?<![\w$])({'|'.join(map(re.escape, TABLE['placeholders']))})(?![\w=])")
    paragraphs = re.split(r"\n\s*\n", prose(page))
    for number, paragraph in enumerate(paragraphs):
        beside = "\n".join(paragraphs[max(0, number - 1) : number + 2])
        said = re.sub(r"^ {4}\S[^#\n]*|`[^`]+`|https:\S+", "", beside, flags=re.MULTILINE)
        for line in [*shell_lines(paragraph), *re.findall(r"https:\S+", paragraph)]:
            for word in words.findall(line):
                assert re.search(TABLE["placeholders"][word], said), f"{word} in: {line}"


def test_no_line_chooses_processes_by_the_name_of_a_script():
    """Another job of the same user may run a script of that name."""
    meant = {line for lines in (*TABLE["run"].values(), *TABLE["by"].values()) for line in lines}
    assert [line for line in meant if re.search(r"\b(pgrep|pkill|killall|pidof)\b", line)] == []


def test_a_word_in_capitals_is_known_as_a_placeholder_or_is_a_name():
    for line in everywhere():
        words = re.findall(r"(?<![\w$%./-])([A-Z][A-Z_]+(?:\.py)?)(?![\w=.])", line)
        unknown = {word for word in words if word not in TABLE["placeholders"]}
        assert unknown <= {"TORCHELASTIC_RUN_ID", "FILE"}, line


def test_no_other_file_has_an_address_that_leads_nowhere():
    for path in ours():
        text = path.read_text(encoding="utf-8")
        if not path.is_relative_to(ROOT / "tests") and re.search(r"://\S*\b(OWNER|REPOSITORY)\b", text):
            assert path == ROOT / "docs/hub.md", path
