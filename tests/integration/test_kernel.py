"""`%%ranks` in a real kernel: options, expectations, display, several kernels side by side."""

import os
import re

import pytest

from tests.support.ranks_and_kernels import until

IMPORTS = "import os, time, torch, torch.distributed as dist\nrank = dist.get_rank()\n"


@pytest.fixture(autouse=True)
def _gang(kernel):
    """Every test begins with a gang of four that holds `rank`."""
    shown = kernel.run(f"%%ranks 4 --backend gloo\n{IMPORTS}")
    assert shown.status == "ok", shown.text
    return kernel


def test_a_cell_runs_on_the_ranks_and_shows_text_and_html(kernel):
    shown = kernel.run("%%ranks\nprint('hello')\nrank * 2")
    for words in ("hello", "rank 0", "rank 3", "| 6"):
        assert words in shown.displays[0]["text/plain"]
    assert "hello" in shown.displays[0]["text/html"]


def test_the_kernel_does_not_import_torch(new_kernel):
    one = new_kernel()
    assert one.run("import sys\n'torch' in sys.modules").value == "False"
    assert one.run("%%ranks 2 --as out\n1.5").status == "ok"
    assert one.run("out.values, out.collectives, 'torch' in sys.modules").value.endswith("False)")


def test_output_streams_into_the_cell_while_it_runs(kernel, tmp_path):
    go = tmp_path / "go"
    message = kernel.start(
        f"%%ranks\nprint('step', 1)\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\nprint('done')"
    )

    def first_page_with_output():
        html = kernel.wait_for("update_display_data", message)["content"]["data"]["text/html"]
        return html if "step 1" in html else None

    assert "running" in until(first_page_with_output)
    go.touch()
    assert kernel.finish(message).text.strip() == "ranks 0-3 | step 1\n          | done", "in the same place"


def test_a_binding_is_made_also_when_the_cell_fails(kernel):
    shown = kernel.run("%%ranks --as out\nif rank == 1:\n    raise ValueError('no')")
    assert shown.status == "error"
    assert kernel.run("out.kind, sorted(out.errors)").value == "(<Kind.RAISES: 'raises'>, [1])"


def test_values_and_variables_reach_the_kernel(kernel):
    kernel.run("%%ranks --as out\nloss = [rank]\nloss[0] + 0.5")
    assert kernel.run("out.values[3], out['loss'][2]").value == "(3.5, [2])"


EXPECTED = {
    "ok": "1",
    "raises": "raise ValueError",
    "raises:ValueError": "raise ValueError",
    "raises:LookupError": "raise KeyError",
    "raises:1": "if rank == 1: raise ValueError",
    "raises:0,2": "if rank in (0, 2): raise ValueError",
    "hang": "if rank: dist.barrier()",
    "hang:1,2,3": "if rank: dist.barrier()",
    "died": "os._exit(1)",
    "died:2": "if rank == 2: os._exit(1)\ndist.barrier()",
}


@pytest.mark.parametrize("expectation", EXPECTED)
def test_what_was_expected_passes(kernel, expectation):
    shown = kernel.run(f"%%ranks --expect {expectation}\n{EXPECTED[expectation]}")
    assert shown.status == "ok", shown.text
    if expectation != "ok":
        assert "✓ As expected" in shown.text
    if expectation.startswith("died"):
        assert kernel.run("%%ranks\n1").status == "ok", "a new gang"


@pytest.mark.parametrize(
    ("expectation", "source"),
    [
        ("hang", "1"),
        ("ok", "raise ValueError"),
        ("raises", "rank"),
        ("raises:KeyError", "raise ValueError"),
        ("raises:0", "if rank: raise ValueError"),
        ("died", "if rank: dist.barrier()"),
        ("hang:0", "if rank: dist.barrier()"),
        ("ok", "if rank: dist.barrier()"),
    ],
)
def test_what_was_not_expected_fails_the_cell_after_showing_all(kernel, expectation, source):
    shown = kernel.run(f"%%ranks --expect {expectation}\n{source}")
    assert shown.status == "error"
    assert shown.ename == "UnexpectedOutcome"
    assert shown.error.startswith(f"UnexpectedOutcome: expected {expectation}, but ")
    assert "\n" not in shown.error, "no traceback of the course"
    assert "✗ Not expected" in shown.text or source == "1"


def test_a_timeout_ends_what_is_late(kernel):
    shown = kernel.run("%%ranks --timeout 0.5 --expect slow\ntime.sleep(60)")
    assert shown.status == "ok", shown.text
    assert "being slow proves nothing" in shown.text


def test_only_some_ranks_and_the_others_keep_theirs(kernel):
    kernel.run("%%ranks --only 0,2 --as out\nmark = 1")
    assert kernel.run("%%ranks --as out\n'mark' in globals()").status == "ok"
    assert kernel.run("out.values").value == "{0: True, 1: False, 2: True, 3: False}"


def test_fresh_forgets_and_the_same_size_keeps(kernel):
    kernel.run("%%ranks\nkept = 1")
    assert kernel.run("%%ranks 4\nkept").status == "ok"
    assert kernel.run("%%ranks 4 --fresh --expect raises:NameError\nkept").status == "ok"
    shown = kernel.run("%%ranks 3\nimport torch.distributed as dist\ndist.get_world_size()").displays[0]
    assert shown["text/plain"] == (
        "ranks 0-2 | 3\nNew ranks (3 instead of 4): the variables of the old ones are lost."
    )


def test_no_init_leaves_the_process_group_to_the_learner_twice_over(kernel):
    source = (
        "import torch, torch.distributed as dist\nassert not dist.is_initialized()\n"
        "for _ in range(2):\n    dist.init_process_group('gloo')\n    x = torch.ones(1)\n    dist.all_reduce(x)\n"
        "    dist.destroy_process_group()\nx.item()"
    )
    for _ in range(2):
        shown = kernel.run(f"%%ranks 3 --no-init\n{source}").displays[0]["text/plain"]
        assert shown.startswith("ranks 0-2 | 3.0")
    assert "lost" not in shown, "the gang of that kind is there already"
    shown = kernel.run(
        "%%ranks --expect hang\nif dist.init_process_group('gloo') or dist.get_rank(): dist.barrier()"
    )
    assert shown.status == "ok", shown.text
    assert (
        kernel.run("%%ranks --expect ok\nif dist.is_initialized(): dist.destroy_process_group()").status
        == "ok"
    )
    assert kernel.run(f"%%ranks\n{source}").displays[0]["text/plain"] == "ranks 0-2 | 3.0"


def test_a_trace_becomes_a_timeline(kernel):
    kernel.run("%%ranks --trace --as out\ndist.all_reduce(torch.ones(1000))")
    assert "Timeline of 4 ranks" in kernel.run("out.timeline").value


def test_status_rescue_restart_stop(kernel):
    assert "4 ranks, idle, gloo" in kernel.run("%ranks").text
    kernel.run("%%ranks\nkept = 1\ndist.destroy_process_group()")
    assert "variables are kept" in kernel.run("%ranks rescue").text
    assert kernel.run("%%ranks\nkept\ndist.barrier()").status == "ok"
    assert "4 ranks, all new" in kernel.run("%ranks restart").text
    assert kernel.run("%%ranks --expect raises:NameError\nkept").status == "ok"
    assert "have been stopped" in kernel.run("%ranks stop").text
    assert "There are no ranks" in kernel.run("%ranks").text
    assert "There are no ranks" in kernel.run("%%ranks\n1").error


def test_a_new_kernel_says_what_helps_in_the_middle_of_a_lesson(new_kernel):
    one = new_kernel()
    for cell in ("%%ranks\nx", "%%ranks --predicted\nx", "%ranks restart"):
        shown = one.run(cell)
        assert "gang" not in shown.text + shown.error
    refused = one.run("%%ranks\nx").error
    assert refused.startswith("There are no ranks: this kernel is new")
    assert "Run > Run All Above Selected Cell" in refused
    shown = one.run("%%ranks 2\ntorch.ones(1)")
    assert "NameError: name 'torch' is not defined" in shown.text
    assert "These ranks are new: no cell above has run on them." in shown.text
    assert "Run > Run All Above Selected Cell" in shown.text
    assert "no cell above" not in one.run("%%ranks\ntorch.ones(1)").text


def test_status_tells_who_is_dead_and_who_is_stopped(kernel):
    kernel.run("%%ranks --expect died:1\nif rank == 1: os._exit(4)")
    text = kernel.run("%ranks").text
    assert "rank 1: exit code 4" in text
    kernel.run(f"%%ranks\n{IMPORTS}")
    kernel.run(
        "%%ranks\nif rank == 2:\n    import threading\n    threading.Timer(0.05, os.kill, (os.getpid(), 19)).start()"
    )
    until(lambda: "rank 2: stopped by a signal" in kernel.run("%ranks").text)
    shown = kernel.run("%%ranks --expect hang\nrank")
    assert shown.status == "ok", shown.text


def test_a_gang_that_lost_a_rank_between_cells_is_replaced_and_the_learner_told(kernel):
    import os
    import signal

    from tests.support.ranks_and_kernels import is_gone

    victim = kernel.ranks()[2]
    os.kill(victim, signal.SIGKILL)
    until(lambda: is_gone(victim))
    shown = until(lambda: (s := kernel.run("%%ranks\n1")) and "all ranks are new" in s.text and s)
    assert shown.status == "ok"


def test_a_cell_that_kills_the_process_that_starts_ranks_costs_the_variables_and_that_is_said(new_kernel):
    """By the cell itself, where the process has ended by its end, and by the next one."""
    one = new_kernel()
    one.run(f"%%ranks 4\n{IMPORTS}\nimport os, signal")
    one.run("%%ranks\nif rank == 0: os.kill(os.getppid(), signal.SIGKILL)")
    shown = until(lambda: (s := one.run("%%ranks\n1 + 1")) and "all ranks are new" in s.text and s)
    assert shown.status == "ok"


def test_figures_of_ranks_appear_once_for_equal_ones(kernel):
    shown = kernel.run("%%ranks\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    (figure,) = [d for d in shown.displays if "image/png" in d]
    assert figure["text/plain"] == "<figure of ranks 0-3>"
    assert f'src="data:image/png;base64,{figure["image/png"]}"' in figure["text/html"]


def test_figures_have_their_words_where_jupyterlab_shows_them(kernel):
    shown = kernel.run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('Speed & time');"
    )
    (figure,) = [d for d in shown.displays if "image/png" in d]
    assert figure["text/html"].startswith('<img alt="Speed &amp; time')
    assert f'src="data:image/png;base64,{figure["image/png"]}"' in figure["text/html"]


def test_the_kernels_own_output_is_left_alone(kernel):
    kernel.run("%%ranks\nprint('rank')")
    assert kernel.run("print('kernel')").stdout == "kernel\n"


def test_run_works_with_functions_of_cells(kernel):
    kernel.run(
        "factor = 3\ndef f(x):\n    import torch.distributed as dist\n    return dist.get_rank() * factor + x"
    )
    assert kernel.run("run(f, 1, ranks=2).values").value == "{0: 1, 1: 4}"


def test_a_cell_that_forks_the_kernel_leaves_the_gang_alone(kernel):
    shown = kernel.run(
        "import multiprocessing, os\np = multiprocessing.get_context('fork').Process(target=os.getpid)\n"
        "p.start()\np.join()\np.exitcode"
    )
    assert shown.value == "0"
    assert kernel.run("%%ranks\nrank").status == "ok"


def test_several_kernels_do_not_disturb_each_other(kernel, new_kernel):
    other = new_kernel()
    assert other.run("%%ranks 3\nx = 'other'").status == "ok"
    kernel.run("%%ranks\nx = 'mine'")
    first = kernel.start("%%ranks\nfor _ in range(200): dist.all_reduce(torch.ones(1))\nx")
    second = other.start(
        "%%ranks --expect hang\nimport torch.distributed as dist\nif dist.get_rank(): dist.barrier()"
    )
    assert kernel.finish(first).status == "ok"
    assert other.finish(second).status == "ok"
    assert other.run("%ranks stop").status == "ok"
    assert "ranks 0-3 | 'mine'" in kernel.run("%%ranks\nx").text


def test_the_saved_text_is_the_same_on_every_run(kernel):
    source = "%%ranks --expect hang\nprint('before')\nif rank != 1: dist.all_reduce(torch.ones(2))"
    texts = {re.sub(r"In \[\d+\]", "In [n]", kernel.run(source).text) for _ in range(5)}
    assert len(texts) == 1


def test_without_the_doctor_a_hang_is_told_and_not_explained(kernel):
    shown = kernel.run("%%ranks --no-doctor --expect hang\nif rank != 1: dist.barrier()").displays[0]
    assert shown["text/plain"].splitlines()[0] == "✓ As expected: hang: ranks 0, 2 and 3 did not finish"
    assert "odd one out" not in shown["text/plain"] + shown["text/html"]


@pytest.mark.parametrize(
    ("cell", "program"),
    [("log = !cat gate", "cat"), ("!cat {gate}", "cat"), ("!WORDS=1 /bin/cat gate", "cat")],
)
def test_a_shell_command_that_shows_nothing_says_that_it_runs_until_it_is_over(
    new_kernel, tmp_path, cell, program
):
    kernel = new_kernel()
    gate = tmp_path / "kernel0/gate"
    os.mkfifo(gate)
    kernel.run("gate = 'gate'")
    message = kernel.start(cell)
    shown = kernel.wait_for("display_data", message)["content"]["data"]["text/plain"]
    assert re.fullmatch(rf"running {program} … \(\d+ s\)", shown)
    assert "running" in kernel.wait_for("update_display_data", message)["content"]["data"]["text/html"]
    gate.write_text("a line\n")
    ended = kernel.finish(message)
    assert [each["text/plain"] for each in ended.displays] == [""]
    assert ended.stdout.strip() == ("" if cell.startswith("log") else "a line")
    assert kernel.run("log" if cell.startswith("log") else "['a line']").value == "['a line']"
