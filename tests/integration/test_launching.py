"""A script's processes under torchrun's own agent, which ends all of them when one has failed."""

from pathlib import Path

from course_lib.grading.grader import grade

ROOT = Path(__file__).parents[2]
HANDED_OUT = ROOT / "exercises/first_ranks/train.py"
END = "    dist.destroy_process_group()"
#: Rank 0 fails when rank 1 closes its connections; rank 1 gets on only after the agent has seen that, and ended it.
SLOW_END = f"""\
{END}
    import time
    failing = Path(arguments().data).with_name("pid")
    while os.environ["RANK"] != "0" and Path("/proc", failing.read_text()).is_dir():
        time.sleep(0.01)
    time.sleep(0.5)"""
#: Its exit code says how many threads a process has lost with its wrapper.
COUNTED_END = f"""\
{END}
    import gc, sys
    before = len(os.listdir("/proc/self/task"))
    del ddp
    gc.collect()
    sys.exit(before - len(os.listdir("/proc/self/task")))"""


def test_a_process_that_only_has_to_leave_is_heard_though_another_has_failed():
    script = HANDED_OUT.read_text(encoding="utf-8")
    alone = "        dist.all_reduce(right)"
    assert END in script
    assert alone in script
    script = script.replace(END, SLOW_END)
    script = script.replace(
        alone, f'        Path(args.data).with_name("pid").write_text(str(os.getpid()))\n{alone}'
    )
    verdict = grade("first_ranks.train", script)
    named = {item.id for item in verdict.misconceptions}
    assert named == {"rank_0_alone", "not_averaged", "whole_batch", "all_write"}, repr(verdict)


def test_a_wrapper_that_outlives_its_group_does_not_end_the_threads_of_gloo_which_may_hang():
    script = (ROOT / "course_lib/lessons/first_ranks/answers/train/right_ddp.py").read_text(encoding="utf-8")
    assert script.count(END) == 1
    script = script.replace(END, COUNTED_END).replace("import argparse", "import argparse\nimport os")
    verdict = grade("first_ranks.train", script)
    assert verdict.passed, repr(verdict)
