"""A script's processes under torchrun's own agent, which ends all of them when one has failed."""

from pathlib import Path

from course_lib.grading.grader import grade

HANDED_OUT = Path(__file__).parents[2] / "exercises/first_ranks/train.py"
END = "    dist.destroy_process_group()"
#: Rank 0 fails when rank 1 closes its connections; rank 1 gets on only after the agent has seen that, and ended it.
SLOW_END = f"""\
{END}
    import time
    failing = Path(arguments().data).with_name("pid")
    while os.environ["RANK"] != "0" and Path("/proc", failing.read_text()).is_dir():
        time.sleep(0.01)
    time.sleep(0.5)"""


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
