"""`make test-gpu` on a machine without a GPU, what it makes of a step's last line, and the page that it writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ranks_and_kernels import is_gone, until
from tools.gpu_day import page, running
from tools.gpu_day.report import report
from tools.gpu_day.running import Box, Result, judge, keep, run_steps
from tools.gpu_day.steps import PARTS, STEPS, Step

ROOT = Path(__file__).resolve().parents[2]
CARD = Box(1, device="H100", driver="570.1", torch="2.14.1+cu130")


def test_without_a_gpu_every_step_says_why_it_cannot_and_nothing_fails(tmp_path):
    before = page.PAGE.read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpu_day", "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    *steps, last = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[:3] for line in steps] == [["CANNOT", str(step.part), step.name] for step in STEPS]
    assert all("no GPU: this machine has no driver" in line for line in steps)
    assert last.startswith(f"No GPU: 0 PASS, 0 FAIL, {len(STEPS)} CANNOT")
    assert page.PAGE.read_text(encoding="utf-8") == before, "a run that has found out nothing changes no page"


@pytest.mark.parametrize(
    ("said", "code", "verdict", "why"),
    [
        ("noise\n\nPASS as it should be\n", 0, "PASS", "as it should be"),
        ("FAIL 2 is not 3\n", 1, "FAIL", "2 is not 3"),
        ("CANNOT no nvidia-smi", 0, "CANNOT", "no nvidia-smi"),
        ("PASS and then a crash", -11, "FAIL", "exit code -11"),
        ("FAIL and yet a good end", 0, "FAIL", "exit code 0"),
        ("", 1, "FAIL", "it wrote nothing"),
        ("Traceback\nKeyError: 'x'", 1, "FAIL", "KeyError: 'x'"),
        ("working", None, "FAIL", "no end within 9 s; last line: working"),
        ("==== 3 passed, 2 skipped in 1.00s ====", 0, "PASS", "3 passed, 2 skipped"),
        ("==== 5 skipped in 1.00s ====", 0, "CANNOT", "nothing was run: 5 skipped"),
        ("==== 1 failed, 3 passed in 1.00s ====", 1, "FAIL", "1 failed, 3 passed"),
    ],
)
def test_the_last_line_and_the_exit_code_are_the_verdict(said, code, verdict, why):
    found, told = judge(said, code, 9.0)
    assert found == verdict
    assert why in told


def ran(tmp_path, code, seconds=20.0, gpus=1):
    step = Step(1, "mine", "what it is", (sys.executable, "-c", code), gpus, seconds)
    said = []
    (result,) = run_steps([step], CARD, tmp_path, said.append)
    return result, said[0]


def test_a_step_runs_in_a_process_of_its_own_and_what_it_writes_is_kept(tmp_path):
    result, line = ran(
        tmp_path, "import os; print('GPUs', os.environ['GPU_DAY_CARDS']); print('PASS all well')"
    )
    assert (result.verdict, result.why) == ("PASS", "all well")
    assert re.fullmatch(r"PASS   1 mine +\d+\.\d s  all well", line)
    assert (tmp_path / "mine.txt").read_text() == "GPUs 1\nPASS all well\n"


def test_a_step_that_does_not_end_is_ended_with_all_that_it_has_started(tmp_path):
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    result, _ = ran(tmp_path, code, seconds=1.0)
    assert result.verdict == "FAIL"
    assert "no end within 1 s" in result.why
    pid = int((tmp_path / "mine.txt").read_text())
    assert until(lambda: is_gone(pid))


def test_a_step_that_needs_more_gpus_is_not_started(tmp_path):
    result, _ = ran(tmp_path, "raise SystemExit(1)", gpus=2)
    assert (result.verdict, result.why) == ("CANNOT", "1 GPU(s) of 2")


def test_a_part_that_has_used_up_its_time_starts_nothing_more(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "PART_SECONDS", 0.0)
    result, _ = ran(tmp_path, "raise SystemExit(1)")
    assert result.verdict == "CANNOT"
    assert "of this part is over" in result.why


def test_results_of_other_parts_are_kept_and_those_of_the_same_step_replaced(tmp_path):
    keep([Result("one", "PASS", "a"), Result("two", "FAIL", "b")], tmp_path)
    kept = keep([Result("two", "PASS", "c")], tmp_path)
    assert {name: (one.verdict, one.why) for name, one in kept.items()} == {
        "one": ("PASS", "a"),
        "two": ("PASS", "c"),
    }
    assert len(json.loads((tmp_path / "results.json").read_text())) == 2


def test_the_page_tells_of_every_step_and_says_what_has_not_been_run(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path / "gpu.md")
    page.PAGE.write_text(f"# Mine\n\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    text = page.write({"driver": Result("driver", "PASS", "H100 | 80 GB")}, CARD)
    assert text.startswith("# Mine\n")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "old" not in text
    assert "**Machine:** 1 x H100, driver 570.1, torch 2.14.1+cu130, on 20" in text
    assert "| PASS: H100 \\| 80 GB |" in text
    assert text.count("| not run yet |") == len(STEPS) - 1


def test_the_committed_page_has_the_steps_that_there_are():
    text = page.PAGE.read_text(encoding="utf-8").partition(page.BEGIN)[2].partition(page.END)[0]
    assert re.findall(r"^\| `(\w+)` \| (.*?) \| ", text, re.MULTILINE) == [(s.name, s.what) for s in STEPS]
    assert [int(number) for number in re.findall(r"^### Part (\d)", text, re.MULTILINE)] == sorted(PARTS)


def test_every_story_of_a_step_exists_and_names_are_unique():
    source = (ROOT / "tools/gpu_day/stories.py").read_text(encoding="utf-8")
    assert len({step.name for step in STEPS}) == len(STEPS)
    told = [step.name for step in STEPS if "tools.gpu_day.stories" in step.command]
    assert all(f"def {name}(" in source or f'"{name}":' in source for name in told)


def test_the_report_quotes_how_a_failed_step_has_ended(tmp_path):
    (tmp_path / "mismatch.txt").write_text("\n".join(f"line {number}" for number in range(100)))
    results = {
        "driver": Result("driver", "PASS", "T4", 1.25),
        "mismatch": Result("mismatch", "FAIL", "silent", 30.0),
    }
    text = report(results, Box(2, "", "Tesla T4", "570.1", "2.13.0+cu130", "2.29.3"), tmp_path)
    assert "GPUs     2 x Tesla T4, driver 570.1\ntorch    2.13.0+cu130, NCCL 2.29.3\n" in text
    assert f"1 PASS, 1 FAIL, 0 CANNOT, {len(STEPS) - 2} not run" in text
    assert "PASS   driver             1.2 s  T4\n" in text
    assert "Part 5: speed and memory\nnot run\n" in text
    assert text.endswith("line 98\nline 99\n")
    assert "line 0\n" not in text
