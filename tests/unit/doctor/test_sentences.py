"""The words of diagnoses: how they are filled in, and that code and table name the same ones."""

import ast
import re
import string
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import realranks.doctor
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import positions, standing
from realranks.outcome.outcome import Diagnosis
from tests.support.holes import holes
from tests.support.outcomes import blocked, stuck
from tests.support.watched import record

FOLDER = Path(realranks.doctor.__file__).parent
TABLES = tomllib.loads((FOLDER / "diagnoses.toml").read_text(encoding="utf-8"))
SEEN = stuck(blocked(0, "barrier", [1, 2], record("", 5, op="barrier")), world_size=3)


def sentences_of(kind):
    """The variants of a kind by the names that code has for them."""
    own = {re.sub(r"_?(advice|lessons|warning)$", "", key) or "says" for key in TABLES[kind]}
    return {kind if key == "says" else f"{kind}.{key}" for key in own}


def test_a_collective_under_a_condition_is_told_with_its_line_and_its_condition():
    words = {
        "what": "barrier()",
        "where": "train.py, line 5",
        "stands": "under `rank == 1`",
        "instead": "; who else",
    }
    found = diagnosis("rank_only_collective", SEEN, [1], ranks=[1], **words)
    assert found.kind == "rank_only_collective"
    assert found.summary == (
        "Only rank 1 comes to barrier() at train.py, line 5, because the line stands under `rank == 1`; who else."
    )
    assert found.culprits == (1,)
    assert found.evidence == positions(SEEN, (1,))
    assert found.advice.startswith("take the collective out of the condition: what only some ranks run")
    assert found.lesson == "lesson 14, Logging, metrics, checkpoints"
    several = diagnosis("rank_only_collective", SEEN, [1, 2], ranks=[1, 2], **words)
    assert several.summary.startswith("Only ranks 1 and 2 come to barrier() at train.py, line 5, because")


@pytest.mark.parametrize(
    ("template", "one", "two"),
    [
        ("{ranks} {ranks:waits}", "rank 1 waits", "ranks 1 and 2 wait"),
        ("{ranks:it} {ranks:has}, {ranks:is}", "it has, is", "they have, are"),
        ("{ranks:does} not, {ranks:was}", "does not, was", "do not, were"),
    ],
)
def test_verbs_fit_the_number_of_ranks(template, one, two):
    assert (text(template, ranks={1: "a"}), text(template, ranks=(2, 1))) == (one, two)


def test_collectives_and_waits_are_written_with_their_lines():
    assert text("in {what}", what=record("", 5)) == "in all_reduce() (8 float32) at train.py, line 5"
    assert text("in {wait}", wait=SEEN.waiting[0]) == "in barrier() at train.py, line 5"


def test_a_wait_in_no_line_of_the_reader_s_leaves_no_hole():
    wait = replace(SEEN.waiting[0], where="", source="")
    assert text("in {wait} for {ranks}", wait=wait, ranks=[1]) == "in barrier() for rank 1"
    assert standing({0: wait}, for_whom=True) == ["rank 0 waits in barrier() for ranks 1 and 2"]
    assert positions(replace(SEEN, waiting={0: wait}), ())[0].endswith("waiting in barrier()")


def test_code_and_table_name_the_same_sentences():
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py")))
    strings = {n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)}
    names = set().union(*map(sentences_of, TABLES))
    # A variant of several kinds is named alone: f"{kind}.when_stepped".
    assert {name for name in names if not {name, f".{name.partition('.')[2]}"} & strings} == set()
    dotted = {s for s in strings if isinstance(s, str) and re.fullmatch(r"[a-z_]+\.[a-z_]+", s)}
    assert {name for name in dotted if name.partition(".")[0] in TABLES} <= names


@pytest.mark.parametrize("name", ["same_data.shares", "init_rank_missing.raise", "no_such_kind"])
def test_a_name_that_the_table_does_not_have_is_an_error_and_not_the_plain_sentence(name):
    with pytest.raises(KeyError, match=name):
        diagnosis(name, None)


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_variant_says_something_of_its_own(kind):
    """One without a sentence has advice or a warning of its own, and says on purpose what its kind says."""
    plain = {
        "different_sizes.in_a_loop",
        "out_of_memory.cuda",
        "parameters_outside.without_ddp",
        "same_data.batches",
        "schedule_too_short.raised",
        "stuck_outside.child",
        "uneven_batches.datasets",
        "uneven_batches.rounds",
        "waiting_in_a_circle.of_messages",
    }
    without = {name for name in sentences_of(kind) if name.partition(".")[2] not in {"", *TABLES[kind]}}
    assert without == {name for name in plain if name.startswith(f"{kind}.")}


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_the_sentences_of_each_kind_end_and_leave_no_brace_open(kind):
    texts = {key: value for key, value in TABLES[kind].items() if isinstance(value, str)}
    assert "says" in texts
    for key, value in texts.items():
        assert value.endswith((".", "?", "}")), key
        list(string.Formatter().parse(value))


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_where_no_line_is_known_none_is_told(kind):
    fitting = {"doing": "busy", "seconds": 3.0, "fits": "it", "how": "left", "key": "k"}
    for name in sentences_of(kind):
        _, _, variant = name.partition(".")
        template = TABLES[kind].get(variant, TABLES[kind]["says"])
        words = {
            word: fitting.get(word, [0, 1]) for _, word, *_ in string.Formatter().parse(template) if word
        }
        said = text(template, **words | {"where": "", "at": "", "place": ""})
        assert holes(Diagnosis(kind, said, (), (), "", None)) == []


@pytest.mark.parametrize(
    "hole", ["in  at x", "waits at for rank 0", "is in .", "under ``", "in wait() ()", "x, ."]
)
def test_a_hole_is_found(hole):
    assert (
        holes(Diagnosis("kind", "Rank 0 waits.", (), ("rank 0   waits in x at line 3: f( )",), "", None))
        == []
    )
    assert holes(Diagnosis("kind", hole, (), (), "", None)) == [hole]
    assert holes(Diagnosis("kind", "", (), (f"rank 0   {hole}",), "", None)) == [hole]


def test_a_wait_without_a_line_is_told_without_one():
    waiting = blocked(0, "barrier", [1], where="")
    assert text("in {wait} for rank 1", wait=waiting) == "in barrier() for rank 1"
    assert standing({0: waiting}, for_whom=True) == ["rank 0 waits in barrier() for rank 1"]
