"""Launches of whole scripts end with all that a script has started, and say what could not be judged."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from course_lib.grading.grader import grade
from course_lib.grading.verdict import VerdictKind, text_report, to_show
from course_lib.tasks import find_task

ROOT = Path(__file__).resolve().parents[2]
BY_HAND = ROOT / "course_lib/lessons/checkpoints/answers/script/right_by_hand.py"

LEAVES_A_PROCESS = """
import subprocess
import sys

subprocess.Popen([sys.executable, "-c", "import time; time.sleep(4711)"], start_new_session=True)
sys.exit(3)
"""


def sleepers():
    running = psutil.process_iter(["cmdline"])
    return [one for one in running if "time.sleep(4711)" in " ".join(one.info["cmdline"] or ())]


def test_a_script_that_ends_at_once_and_leaves_a_process_behind_is_judged_and_leaves_nothing():
    verdict = grade("capstone.train", LEAVES_A_PROCESS)
    assert verdict.kind is VerdictKind.WRONG
    assert verdict.misconceptions == ()
    assert all("not reached" in check.observed for check in verdict.checks[:-1])
    assert "sys.exit(3) at train.py, line 6" in repr(verdict)
    assert sleepers() == []


@pytest.mark.parametrize("name", ["checkpoints.script", "capstone.train"])
def test_a_report_names_no_cause_before_the_learner_names_a_suspect(name):
    given = (ROOT / "exercises" / find_task(name).script).read_text(encoding="utf-8")
    verdict = grade(name, given, even_untouched=True)
    first = text_report(verdict)
    assert "plain, 2 ranks: " in first
    assert len(verdict.misconceptions) == 15
    for check in verdict.checks:
        assert check.sentence not in first
        assert check.observed not in first
    for item in verdict.misconceptions:
        assert item.sentence not in first
        assert item.taught not in first
    words = {
        word
        for check in find_task(name).checks
        for word in check.suspects.split()
        if word in given and not word.isdigit()
    }
    told = {item for word in words for item in to_show(verdict, word).misconceptions}
    assert told == set(verdict.misconceptions), "a word of the script leads to each"
    for item in verdict.misconceptions:
        lesson = item.taught[: len("lesson 02")]
        named = to_show(verdict, lesson.removeprefix("lesson ")).misconceptions
        assert item in named, "and its lesson"
        assert {other.taught[: len(lesson)] for other in named} == {lesson}


def test_ranks_that_begin_with_other_weights_are_not_told_to_divide():
    source = BY_HAND.read_text(encoding="utf-8")
    unseeded = source.replace("torch.manual_seed(args.seed)", "torch.manual_seed(dist.get_rank())")
    unseeded = unseeded.replace("dist.broadcast(p.data, src=0)", "pass")
    assert unseeded.count("pass") > source.count("pass")
    verdict = grade("checkpoints.script", unseeded)
    assert "summed" not in [item.id for item in verdict.misconceptions]
    assert "rank 1 took its first step from other weights than rank 0" in repr(verdict)
    assert " off from one process's" in text_report(verdict)


LINES = [
    line.partition(" #")[0].strip()
    for page in ("course_lib/lessons/capstone/lesson.py", "course_lib/lessons/capstone/exercises.py")
    for block in re.findall(
        r"^# ```bash\n(.*?)^# ```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    for line in block.replace("# ", "", 1).replace("\n# ", "\n").splitlines()
]


def typed(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    variables = os.environ | {"PATH": path, "TMPDIR": str(temporary)}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=variables, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_lesson_trains_when_typed_beside_a_script_that_is_right(line, tmp_path):
    shutil.copytree(ROOT / "solutions/capstone", tmp_path / "capstone")
    ran = typed(line, tmp_path)
    told = ran.stdout + ran.stderr
    assert ran.returncode == 0, told
    assert told.count("accuracy") >= int(re.search(r"--epochs (\d)", line)[1]), told
    assert not (tmp_path / "checkpoint.pt").exists()


@pytest.mark.slow
def test_the_first_line_reaches_the_last_epoch_of_the_script_as_it_is_handed_out_also_in_a_folder_to_be_made(
    tmp_path,
):
    shutil.copytree(ROOT / "exercises/capstone", tmp_path / "capstone")
    line = LINES[0].replace('"$(mktemp -d)"', "made/for/this")
    assert "epoch 2: accuracy" in typed(line, tmp_path).stdout
    assert (tmp_path / "made/for/this/checkpoint.pt").exists()


@pytest.mark.slow
def test_the_script_that_grows_is_run_and_asked_about_a_lesson_as_typed(tmp_path):
    for given in ("exercises", "solutions"):
        shutil.copytree(ROOT / given / "script", tmp_path / given / "script")
    line = (
        'torchrun --standalone --nproc-per-node=2 exercises/script/train.py --epochs 2 --out "$(mktemp -d)"'
    )
    assert "epoch 2: accuracy" in typed(line, tmp_path).stdout
    script = tmp_path / "exercises/script/train.py"
    faulty = script.read_text(encoding="utf-8")
    script.write_text(faulty.replace('int(os.environ["LOCAL_RANK"])', "dist.get_rank()"), encoding="utf-8")
    asked = typed("ddp-course check --suspect 02 exercises/script/train.py", tmp_path)
    assert "What is checked of lesson 02 holds." in asked.stdout, asked.stdout + asked.stderr


def test_there_are_lines_to_be_typed():
    assert len(LINES) == 4
