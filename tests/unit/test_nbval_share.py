"""An nbval run tells how many cells it did not compare, fails above the limit, and spares one's progress."""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.nbval_share import PICTURES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_bytes((ROOT / "conftest.py").read_bytes())
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --nbval-current-env\n", encoding="utf-8")
    return tmp_path


def cell(source: str, shown: str = "", *tags: str, count: int | None = 1) -> nbformat.NotebookNode:
    outputs = [new_output("stream", text=shown)] if shown else []
    return new_code_cell(source, outputs=outputs, execution_count=count, metadata={"tags": list(tags)})


def save(course: Path, name: str, *cells: nbformat.NotebookNode) -> None:
    (course / name).parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells)), course / name)


def nbval(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The plugin comes from this checkout, the notebooks and their root from the temporary one.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", *arguments]
    return subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, check=False)


COMPARED = [cell(f"print({n})", f"{n}\n") for n in range(8)]


def test_the_share_is_told_for_each_folder_and_in_total(course):
    save(course, "notebooks/00.ipynb", *COMPARED)
    ignored = cell("print('any')", "other\n", "nbval-ignore-output")
    save(course, "solutions/00.ipynb", *COMPARED[:5], ignored)
    done = nbval(course, "notebooks", "solutions")
    assert done.returncode == 0, done.stdout
    assert "  notebooks: 8 code cells, 0 not compared (0.0 %)\n" in done.stdout
    assert "  solutions: 6 code cells, 1 not compared (16.7 %)\n" in done.stdout
    assert "nbval: 14 code cells, 1 not compared (7.1 %)\n" in done.stdout
    assert done.stdout.splitlines()[-1].strip("= ").startswith("14 passed")


def test_every_way_not_to_be_compared_is_counted_and_too_many_fail_the_run(course):
    unseen = [
        cell("x = 1", "", "nbval-ignore-output"),
        cell("x = 1", "", "nbval-skip"),
        cell("# NBVAL_IGNORE_OUTPUT\nx = 1"),
        cell("# NBVAL_SKIP\nx = 1"),
        cell("x = 1", count=None),
    ]
    save(course, "notebooks/00.ipynb", *COMPARED[:5], *unseen)
    done = nbval(course, "notebooks")
    assert "nbval: 10 code cells, 5 not compared (50.0 %)\n" in done.stdout
    assert "FAILED: more than 15 % are not compared" in done.stdout
    assert "8 passed, 2 skipped" in done.stdout.splitlines()[-1]
    assert done.returncode == 1


def test_each_notebook_starts_with_no_progress_and_leaves_the_learner_s_alone(course, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", str(course / "the-learner"))
    look = (
        "import os, pathlib\nhome = pathlib.Path(os.environ['DDP_COURSE_HOME'])\n"
        "print(home.exists(), home.name)\nhome.mkdir(parents=True)"
    )
    for name in ("notebooks/00.ipynb", "notebooks/01.ipynb"):
        save(course, name, cell(look, "False course\n"), cell("print(home.exists())", "True\n"))
    done = nbval(course, "notebooks")
    assert done.returncode == 0, done.stdout
    assert not (course / "the-learner").exists()


def test_a_run_without_notebooks_says_nothing_of_them(course):
    (course / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    done = nbval(course, "test_one.py")
    assert done.returncode == 0
    assert "nbval" not in done.stdout.split("collected", 1)[1]


def drawing(*labels: str, height: int = 30) -> str:
    shapes = "".join(f"<text>{label}</text>" for label in labels)
    svg = f'<svg><style>x{{}}</style>{shapes}<rect height="{height}"/></svg>'
    return f'<img alt="a" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'


def figure(alt: str) -> str:
    return (
        f'<img alt="{alt}" width="9" src="data:image/png;base64,{base64.b64encode(alt.encode()).decode()}">'
    )


def compared(output: str) -> str:
    for pattern, what in PICTURES.items():
        output = re.sub(pattern, what, output)
    return output


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (drawing("Rank 1 is late"), drawing("Rank 2 is late"), False),
        (drawing("All alike", height=30), drawing("All alike", height=31), False),
        (drawing("Steps", "milliseconds", "0"), drawing("Steps", "milliseconds", "20"), True),
        (drawing("Steps", "forward, 1.2 ms"), drawing("Steps", "forward, 3 ms"), True),
        (drawing("Late by 40 ms (computed)", "milliseconds"), drawing("Late by 50 ms (computed)"), False),
        (figure("loss. none from 2.31 to 0.4"), figure("loss. none from 2.31 to 0.5"), False),
        (figure("off by 7.3e-05"), figure("off by 5e-06"), True),
        (figure("up: one all-reduce (ms). 2"), figure("up: one all-reduce (ms). 3"), True),
    ],
)
def test_a_picture_is_compared_but_for_times_and_rounding(one, other, same):
    assert (compared(one) == compared(other)) is same
