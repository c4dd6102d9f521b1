"""A prediction is decided by the run, not by an answer key."""

import re

import pytest

ANSWERS = '{"everyone finishes": "ok", "rank 0 raises": "raises:0", "the others wait": "hang"}'
FINISHES = "%%ranks 2 --predicted\n1"
RAISES = "%%ranks 2 --predicted\nimport torch.distributed as dist\nif dist.get_rank() == 0: raise ValueError"


@pytest.mark.parametrize(
    ("choose", "cell", "says"),
    [
        ("p.choose('everyone finishes')", FINISHES, "✓ You predicted “everyone finishes”, and so it is."),
        ("p('rank 0 raises')", RAISES, "✓ You predicted “rank 0 raises”, and so it is."),
        (
            "p('the others wait')",
            FINISHES,
            "✗ You predicted “the others wait”. The run says “everyone finishes”.",
        ),
        (
            "p('the others wait'); p('rank 0 raises')",
            RAISES,
            "✓ You predicted “rank 0 raises”, and so it is.",
        ),
        (
            "p('everyone finishes')",
            "%%ranks 2 --predicted\nimport os\nos._exit(1)",
            "none of the answers: ranks 0 and 1 die",
        ),
    ],
)
def test_the_run_decides(kernel, choose, cell, says):
    assert kernel.run(f"p = predict('What happens?', {ANSWERS})").status == "ok"
    assert kernel.run(choose).status == "ok"
    assert says in kernel.run(cell).text


@pytest.mark.parametrize(
    "look",
    [
        "%%ranks\nx",
        "%%ranks 2\nprint('only a look')",
        "%%ranks 2 --expect died\nimport os\nos._exit(1)",
        "run(lambda: 1, ranks=2);",
        "run(lambda: 1 / 0, ranks=2, expect='raises');",
    ],
)
def test_only_the_deciding_run_decides(kernel, look):
    kernel.run("%%ranks 2\ny = 1")
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'rank 0 raises')")
    assert "redicted" not in kernel.run(look).text
    assert kernel.run("print(p.outcome, p._radio.disabled)").text.strip() == "None False", "still open"
    assert "✓ You predicted “rank 0 raises”, and so it is." in kernel.run(RAISES).text


def test_the_map_counts_the_first_prediction_of_a_question_of_the_lessons(kernel):
    for answer in ("rank 2 raises an error", "the other three wait for ever"):
        kernel.run(f"p = predict('00.skips', choice={answer!r})")
        kernel.run(
            "%%ranks 4 --predicted\nimport torch, torch.distributed as dist\n"
            "if dist.get_rank() != 2: dist.all_reduce(torch.ones(1))"
        )
    assert "0 of 1 predictions right" in kernel.run("%progress").text


def test_a_question_that_was_revealed_by_hand_is_decided(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'everyone finishes')")
    assert "and so it is" in kernel.run("out = run(lambda: 1, ranks=2)\np.reveal(out)").text
    assert kernel.run("%%ranks 2 --predicted\n'a new cell'").error.startswith(
        "--predicted: no question is open"
    )


def test_the_question_is_shown_as_text_html_and_widget(kernel):
    shown = kernel.run(f"p = predict('What happens?', {ANSWERS})")
    bundle = shown.displays[-1]
    assert "What happens?" in bundle["text/plain"]
    answers = dict(re.findall(r"^  (\d)\. (.+)$", bundle["text/plain"], re.MULTILINE))
    assert sorted(answers.values()) == ["everyone finishes", "rank 0 raises", "the others wait"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    for number, answer in answers.items():
        kernel.run(f"p({number})")
        assert kernel.run("print(p.choice, '|', p._radio.value)").text.strip() == f"{answer} | {answer}"
    kernel.run(FINISHES)


def test_a_click_commits_as_a_call_does(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS})")
    kernel.run("p._radio.value = 'rank 0 raises'")
    assert "You predicted “rank 0 raises”" in kernel.run(FINISHES).text


def test_a_choice_can_be_made_at_once(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS}, choice='everyone finishes')")
    assert "✓" in kernel.run(FINISHES).text


def test_a_question_is_decided_once(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'everyone finishes')")
    kernel.run(FINISHES)
    assert "predicted" not in kernel.run(FINISHES).text
    assert "has already decided" in kernel.run("p(2)").error


def test_asking_again_replaces_the_question(kernel):
    for _ in range(3):
        kernel.run(f"p = predict('What happens?', {ANSWERS}, 'everyone finishes')")
    assert kernel.run(FINISHES).text.count("You predicted") == 1


def test_run_decides_too(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'everyone finishes')")
    assert "and so it is" in kernel.run("run(lambda: 1, ranks=2, expect='predicted');").text


@pytest.mark.parametrize("choice", ["7", "0", "'no such'", "None", "2.5"])
def test_a_wrong_choice_is_refused_with_the_answers(kernel, choice):
    kernel.run(f"p = predict('What happens?', {ANSWERS})")
    shown = kernel.run(f"p({choice})")
    assert re.search(r"Choose by text or number: 1: [^;]+; 2: [^;]+; 3: [^;]+\.$", shown.error)
    assert len(shown.error.splitlines()) == 1


@pytest.mark.parametrize("answers", ['{"a": "ok"}', '{"a": "ok", "b": "nonsense"}'])
def test_a_question_that_is_none_is_refused(kernel, answers):
    shown = kernel.run(f"predict('What?', {answers})")
    assert shown.status == "error"
    assert len(shown.error.splitlines()) == 1


def test_the_deciding_cell_accepts_what_any_answer_foresees(kernel):
    for cell in (FINISHES, RAISES):
        assert kernel.run(f"p = predict('What happens?', {ANSWERS}, 'the others wait')").status == "ok"
        shown = kernel.run(cell)
        assert shown.status == "ok", shown.error
        assert "✗ You predicted “the others wait”. The run says" in shown.text
        assert "xpected" not in shown.text, "whether it was expected, the learner says"


def test_the_deciding_cell_fails_on_what_no_answer_foresees(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'everyone finishes')")
    shown = kernel.run("%%ranks 2 --predicted --as out\nimport os\nos._exit(1)")
    assert shown.error == "UnexpectedOutcome: expected what one of the answers says, but ranks 0 and 1 die."
    assert "✗ Not expected" in shown.text
    assert "none of the answers: ranks 0 and 1 die" in shown.text
    assert kernel.run("print(out.kind)").text.strip() == "died", "it can be looked at"


def test_functions_as_answers_are_asked_also_when_a_rank_has_failed(kernel):
    answers = '{"7": lambda out: out["x"][0] == 7, "8": lambda out: out["x"][0] == 8, "an error": "raises"}'
    kernel.run(f"p = predict('x?', {answers}, '7')")
    assert "You predicted “7”, and so it is" in kernel.run("%%ranks 2 --predicted\nx = 7").text
    kernel.run(f"p = predict('x?', {answers}, '7')")
    shown = kernel.run("%%ranks 2 --fresh --predicted\n1 / 0")
    assert (shown.status, "The run says “an error”" in shown.text) == ("ok", True)
    kernel.run(f"p = predict('x?', {answers}, '7')")
    assert "expected what one of the answers says" in kernel.run("%%ranks 2 --predicted\nx = 9").error


def test_a_deciding_cell_wants_its_question_first_and_may_be_run_again(kernel):
    deciding = (
        "%%ranks 2 --predicted\nimport torch.distributed as dist\nif dist.get_rank() == 0: raise KeyError"
    )
    shown = kernel.run(deciding)
    assert shown.error.startswith("--predicted: no question is open. Run the cell with predict(...) first")
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'rank 0 raises')")
    assert "and so it is" in kernel.run(deciding).text
    again = kernel.run(deciding)
    assert (again.status, "predicted" in again.text) == ("ok", False)
    both = kernel.run("%%ranks 2 --predicted --expect ok\n1")
    assert both.error == "--predicted and --expect exclude each other: the prediction says what to expect."


def test_a_stopped_run_decides_nothing(kernel):
    answers = '{"it works": "ok", "whatever": lambda out: True}'
    kernel.run(f"p = predict('What happens?', {answers}, 'it works')")
    shown = kernel.run("%%ranks 2 --predicted --stop-after 0.3\nimport time\ntime.sleep(60)")
    assert (shown.status, "predicted" in shown.text) == ("error", False)
    assert "and so it is" in kernel.run("%%ranks 2 --predicted\n1").text


def test_run_may_decide_what_was_predicted(kernel):
    kernel.run(f"p = predict('What happens?', {ANSWERS}, 'rank 0 raises')")
    shown = kernel.run("def fails(): raise ValueError\nrun(fails, ranks=1, expect='predicted');")
    assert (shown.status, "and so it is" in shown.text) == ("ok", True)
    shown = kernel.run("def succeeds(): pass\nrun(succeeds, ranks=2, expect='predicted');")
    assert "no question is open" in shown.error


def test_a_question_of_a_lesson_is_asked_by_its_name_and_replies_to_each_wrong_choice(kernel):
    shown = kernel.run("p = predict('00.skips')")
    assert shown.displays[-1]["text/plain"].startswith("Rank 2 skips the all_reduce. What happens?\n  1. ")
    kernel.run("p('rank 2 raises an error')")
    shown = kernel.run(
        "%%ranks 4 --predicted\nimport torch, torch.distributed as dist\n"
        "if dist.get_rank() != 2: dist.all_reduce(torch.ones(1))"
    )
    assert "The run says “the other three wait for ever”.\nNobody checks. Rank 2 has done" in shown.text
    assert "Nobody checks." in shown.displays[-1]["text/html"]
    kernel.run("p = predict('00.skips', choice='the other three wait for ever')")
    shown = kernel.run("run(lambda: 1, expect='predicted');")
    assert "The run says “the other three add up" in shown.text
    assert shown.text.rstrip().endswith("without it”."), "what comes true has no reply"


@pytest.mark.parametrize("asks", ["predict('00.skipped')", "predict('Does it hang?')"])
def test_a_question_that_there_is_not_is_refused(kernel, asks):
    shown = kernel.run(asks)
    assert shown.error.startswith("There is no question '")
    assert len(shown.error.splitlines()) == 1


@pytest.mark.parametrize(
    "decides", ["%%ranks 2 --predicted\nmark = 1", "run(lambda: 1, ranks=2, expect='predicted');"]
)
def test_who_has_not_chosen_is_asked_once_and_no_rank_starts(kernel, decides):
    asks = f"p = predict('What happens, {len(decides)}?', {ANSWERS})"
    kernel.run("%%ranks 2 --fresh\n'new'")
    kernel.run(asks)
    refused = kernel.run(decides)
    assert refused.error.startswith(
        "You have not predicted yet: choose an answer above, or run this cell again"
    )
    assert (len(refused.error.splitlines()), refused.displays) == (1, [])
    assert "NameError" in kernel.run("%%ranks --expect raises\nmark").text
    kernel.run(asks)
    assert "The run says “everyone finishes”. (No prediction was made.)" in kernel.run(decides).text


def test_who_is_asked_may_choose(kernel):
    kernel.run(f"p = predict('What happens then?', {ANSWERS})")
    assert kernel.run(FINISHES).status == "error"
    kernel.run("p('everyone finishes')")
    assert "and so it is" in kernel.run(FINISHES).text


def test_nobody_is_asked_where_outputs_are_compared(new_kernel):
    kernel = new_kernel(DDP_COURSE_LIVE="0")
    kernel.run(f"%load_ext course_lib\np = predict('What happens?', {ANSWERS})")
    assert "(No prediction was made.)" in kernel.run(FINISHES).text


def test_nobody_is_asked_where_all_cells_were_run_at_once(kernel, tmp_path):
    """The deciding cell was sent before the question stood there."""
    sent = tmp_path / "sent"
    waits = f"import time, pathlib\nwhile not pathlib.Path({str(sent)!r}).exists(): time.sleep(0.01)"
    asks = kernel.start(f"{waits}\np = predict('What happens at once?', {ANSWERS})")
    decides = kernel.start(FINISHES)
    sent.touch()
    assert kernel.finish(asks).status == "ok"
    assert "(No prediction was made.)" in kernel.finish(decides).text
