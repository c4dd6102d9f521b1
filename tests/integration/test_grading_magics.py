"""Tasks as a learner meets them: cells in a real kernel."""

import re

import pytest

from course_lib.tasks import find_task
from tests.support.ranks_and_kernels import ROOT

RIGHT = """%%task samplers.shard_indices
from torch.utils.data import DistributedSampler

def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    sampler = DistributedSampler(range(n), world_size, rank, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)
"""
STUB = """%%task samplers.evaluate
def evaluate(model, dataset):
    # YOUR CODE HERE
    accuracy = ...
    return accuracy
"""
HANGING = """%%task samplers.evaluate
import torch, torch.distributed as dist

def evaluate(model, dataset):
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))
    return 1.0
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    from tests.integration.conftest import Kernel

    mine = Kernel(tmp_path_factory.mktemp("tasks"))
    yield mine
    mine.close()


def words(html):
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL))


def test_a_right_answer_passes_in_text_and_html(kernel):
    shown = kernel.run(RIGHT)
    assert shown.status == "ok"
    (bundle,) = shown.displays
    assert bundle["text/plain"].startswith("samplers.shard_indices: pass\n  All checks hold.")
    assert "samplers.shard_indices: pass" in words(bundle["text/html"])
    assert "Ran on 1, 2, 3 and 4 ranks." in bundle["text/plain"]
    assert shown.stdout == shown.stderr == ""


def test_an_answer_that_takes_long_says_how_long_and_the_verdict_takes_its_place(kernel):
    kernel.run("from realranks.cells import show\nafter, show._TRIALS_AFTER = show._TRIALS_AFTER, 0.0")
    shown = kernel.run(RIGHT)
    kernel.run("show._TRIALS_AFTER = after")
    (bundle,) = shown.displays
    assert bundle["text/plain"].startswith("samplers.shard_indices: pass\n")
    *before, last = map(words, shown.updates)
    assert "samplers.shard_indices: pass" in last
    done = [
        re.search(r"checking … (\d+) of (\d+) trials are done, still about \d+ s", text) for text in before
    ]
    numbers = [(int(found[1]), int(found[2])) for found in done]
    in_all = numbers[0][1]
    assert numbers == [(number, in_all) for number in range(2, in_all)], "the first of them began the place"


def test_a_stub_says_the_same_every_time(kernel):
    texts = {kernel.run(STUB).displays[0]["text/plain"] for _ in range(3)}
    assert len(texts) == 1
    text = texts.pop()
    assert text.startswith("samplers.evaluate: not attempted")
    assert "YOUR CODE HERE" in text


def test_a_wrong_answer_is_no_error_of_the_cell_and_the_same_every_time(kernel):
    wrong = RIGHT.replace("    sampler.set_epoch(epoch)\n", "")
    shown = [kernel.run(wrong) for _ in range(2)]
    assert {one.status for one in shown} == {"ok"}
    (verdict, *_), (again, *_) = (one.displays for one in shown)
    assert verdict == again
    assert "What this looks like: The order is that of epoch 0 in every epoch" in shown[0].text


def test_the_deadlock_of_an_answer_names_the_line_of_the_cell(kernel):
    text = kernel.run(HANGING).text
    assert "samplers.evaluate: deadlock" in text
    assert "your answer, line 6" in text
    assert kernel.run("1 + 1").value == "2"


def test_a_script_is_not_attempted_until_it_is_changed_and_then_shows_one_fault(kernel):
    """Its own file, beside the notebook."""
    given = (ROOT / "exercises/first_ranks/train.py").read_text(encoding="utf-8")
    cell = "%%task first_ranks.train\n# YOUR CODE HERE"
    write = "from pathlib import Path; Path('first_ranks').mkdir(exist_ok=True)"
    kernel.run(f"{write}; Path('first_ranks/train.py').write_text({given!r})")
    bundle, *_ = kernel.run(cell).displays
    for text in (bundle["text/plain"], words(bundle["text/html"])):
        assert "first_ranks.train: not attempted" in text
        assert f"{len(find_task('first_ranks.train').checks)} checks, on 1 and 2 ranks" in text
        assert "✗" not in text
    changed = given.replace("torch.save(", "0 and torch.save(").replace("dist.all_reduce(right)", "pass")
    kernel.run(f"Path('first_ranks/train.py').write_text({changed!r})")
    bundle, *_ = kernel.run(cell).displays
    for text in (bundle["text/plain"], words(bundle["text/html"])):
        assert "checks hold" in text
        assert "Below is one that does not." in text
        assert (text.count("✗"), text.count("Read again:")) == (1, 1)


def test_an_answer_sees_nothing_of_other_cells_and_they_nothing_of_it(kernel):
    kernel.run("secret = 1")
    assert (
        "NameError" in kernel.run("%%task samplers.evaluate\nsecret\ndef evaluate(m, d): return secret").text
    )
    kernel.run(RIGHT)
    assert kernel.run("shard_indices").ename == "NameError"


def test_an_answer_leaves_the_learners_own_gang_alone(kernel):
    kernel.run("%%ranks 2\nkept = 41")
    kernel.run(HANGING)
    kernel.run(RIGHT.replace("    sampler =", "    import os; os._exit(1)\n    sampler ="))
    assert "42" in kernel.run("%%ranks\nkept + 1").text
    kernel.run("%ranks stop")


def test_the_stop_button_ends_the_checking_and_is_no_attempt(new_kernel):
    kernel = new_kernel()
    kernel.run(RIGHT)
    running = kernel.start(STUB.replace("accuracy = ...", "while True: pass"))
    while not kernel.processes()[2:]:  # the launcher, then the store and a rank
        pass
    kernel.press_stop()
    shown = kernel.finish(running, timeout=20)
    assert shown.status == "error"
    assert "stopped" in shown.error
    assert re.search(r"samplers.evaluate +open", kernel.run("%progress").text)
    assert kernel.run(STUB).status == "ok"


def test_bad_names_and_options_are_one_clear_line(kernel):
    for line, expected in (
        ("%%task samplers.evalute\nx", "Did you mean samplers.evaluate"),
        ("%%task\nx", "needs the name of a task"),
        ("%%task samplers.evaluate --sed 3\nx", "unrecognized arguments: --sed 3"),
        ("%%task samplers.evaluate --seed x\nx", "a whole number"),
        ("%%task samplers.evaluate samplers.make_loader\nx", "unrecognized arguments: samplers.make_loader"),
        ("%hint nothing.like_it", "There is no task 'nothing.like_it'"),
        ("%solution samplers.make_loader", "opens once your answer has passed"),
        ("%progress 77", "There is no lesson '77'"),
    ):
        shown = kernel.run(line)
        assert shown.status == "error"
        assert expected in shown.error
        assert len(shown.error.splitlines()) == 1


def test_hints_come_one_by_one_and_are_counted(new_kernel):
    kernel = new_kernel()
    first, second, third, all_again = (kernel.run("%hint samplers.evaluate").text for _ in range(4))
    assert "Hint 1 of 3" in first
    assert "2 more" in first
    assert "Hint 2 of 3" in second
    assert "That was the last one." in third
    assert "All 3 hints" in all_again
    kernel.run(STUB)
    assert "All 3 hints" in kernel.run("%hint").text, "without a name: the task run last"
    assert re.search(r"samplers.evaluate +begun", kernel.run("%progress 03").text)


def test_solutions_open_by_passing_or_giving_up(new_kernel):
    kernel = new_kernel()
    assert kernel.run("%solution samplers.shard_indices").status == "error"
    kernel.run(RIGHT)
    assert "def shard_indices(" in kernel.run("%solution samplers.shard_indices").text
    assert "def evaluate(" in kernel.run("%solution samplers.evaluate --give-up").text
    assert "def evaluate(" in kernel.run("%solution samplers.evaluate").text
    course = kernel.run("%progress 03").text
    assert "✓ samplers.shard_indices    passed" in course
    assert "○ samplers.evaluate         solution seen" in course
    assert "1 of 5 tasks passed. Next: samplers.make_loader" in course


def test_what_the_course_must_solve_itself_can_be_made_strict(new_kernel):
    kernel = new_kernel(DDP_COURSE_STRICT="1")
    assert kernel.run(RIGHT).status == "ok"
    assert kernel.run(STUB).status == "ok"
    shown = kernel.run("%%task samplers.evaluate\ndef evaluate(m, d): return 0.5")
    assert shown.status == "error"
    assert shown.ename == "TaskNotPassed"


def test_nothing_of_the_learners_text_becomes_markup(kernel):
    shown = kernel.run(
        "%%task samplers.evaluate\nprint('<script>alert(1)</script>')\nraise ValueError('<b>x</b>')"
    )
    html = shown.displays[0]["text/html"]
    assert "<script>" not in html
    assert "<b>x</b>" not in html
    assert "&lt;script&gt;" in html
