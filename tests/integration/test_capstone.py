"""The capstone's launches end with all that a script has started, and say what could not be judged."""

import psutil

from course_lib.grading.grader import grade
from course_lib.grading.verdict import VerdictKind

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
