"""Verdicts from what NCCL's watchdog prints, in the formats of several versions of torch."""

import json
from itertools import chain

import pytest
from typer.testing import CliRunner

from course_lib.cli.app import application
from realranks.doctor.watchdog_log import NoWatchdogError, verdict

SIZE = 9801523


def timed_out(line, rank, seq, op, sizes=""):
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, {sizes}Timeout(ms)=600000)"
    what = (
        f"Watchdog caught collective operation timeout: {work} ran for 600020 milliseconds before timing out."
    )
    return f"ProcessGroupNCCL.cpp:{line}] [Rank {rank}] {what}"


def before_2_1(rank, seq, issued, op="ALLREDUCE", size=SIZE):
    """It names neither the process nor the group nor the size, nor what a rank has issued."""
    yield f"[E {timed_out(828, rank, seq, op)}"
    yield f"[E ProcessGroupNCCL.cpp:455] [Rank {rank}] Some NCCL operations have failed or timed out."


def in_2_4(rank, seq, issued, op="ALLREDUCE", size=SIZE):
    where = f"[rank{rank}]:[E626 06:24:44.905"
    group = f"[PG 0 (default_pg) Rank {rank}]"
    last = f"{seq}, last enqueued NCCL work: {issued}, last completed NCCL work: {seq - 1}."
    yield f"{where} {timed_out(607, rank, seq, op, f'NumelIn={size}, NumelOut={size}, ')}"
    error = "Exception (either an error or timeout) detected by watchdog at work"
    yield f"{where} ProcessGroupNCCL.cpp:1664] {group} {error}: {last}"
    yield f"{where} ProcessGroupNCCL.cpp:1709] {group} Timeout at NCCL work: {last}"


def in_2_10(rank, seq, issued, op="ALLREDUCE", size=SIZE):
    where = f"[rank{rank}]:[E709 17:05:38.162"
    yield f"{where} {timed_out(683, rank, seq, op, f'NumelIn={size}, NumelOut={size}, ')}"
    status = f"last enqueued work: {issued}, last completed work: {seq - 1}"
    failure = f" failure detected by watchdog at work sequence id: {seq} PG status: {status}"
    yield f"{where} ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {failure}"
    yield f"{where} ProcessGroupNCCL.cpp:730] Stack trace of the failed collective: "
    yield "#0 all_reduce from /venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py:3021"
    yield "#1 validate from /job/train.py:88"
    yield "#2 <module> from /job/train.py:120"
    yield ""


def told(rank, issued):
    """A rank that has not timed out is told that another has."""
    where = f"[rank{rank}]:[E709 17:05:38.482 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    signal = (
        "Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump"
    )
    last = f"Last enqueued NCCL work: {issued}, last completed NCCL work: {issued}."
    return f"{where} {signal} the debug info. {last}This is most likely caused by incorrect usages of collectives."


def judged(*parts):
    return verdict(chain.from_iterable([part] if isinstance(part, str) else part for part in parts))


def test_a_rank_that_has_issued_one_less_is_named_with_the_line_of_the_others():
    outcome = judged(in_2_10(0, 418, 420, size=1), told(1, 417), in_2_10(2, 418, 420, size=1))
    found = outcome.diagnosis
    assert (found.kind, found.culprits) == ("skipped_collective", (1,))
    assert "number 418 of the default group" in found.summary
    assert "all_reduce() of 1 element (or barrier()) at train.py, line 88" in found.summary
    assert "number 417" in found.summary
    assert outcome.waiting[0].missing == (1,)


def test_a_rank_that_has_issued_one_more_than_all_others_is_the_odd_one():
    found = judged(in_2_10(0, 11, 11), told(1, 10), told(2, 10), told(3, 10)).diagnosis
    assert (found.kind, found.culprits) == ("extra_collective", (0,))


def test_no_collective_before_the_timeout_is_said_in_words():
    assert "issued was none" in judged(in_2_10(0, 1, 1), in_2_10(2, 1, 1), told(1, -1)).diagnosis.summary


@pytest.mark.parametrize("version", [before_2_1, in_2_4, in_2_10])
def test_a_rank_without_a_line_is_missed_where_the_log_tells_no_more(version):
    found = judged(version(0, 418, 420), version(3, 418, 420), version(2, 418, 420)).diagnosis
    assert (found.kind, found.culprits) == ("nccl_timeout", (1,))
    assert "of rank 1 the log has no line" in found.summary


@pytest.mark.parametrize("version", [before_2_1, in_2_4, in_2_10])
def test_nobody_is_blamed_where_all_have_come(version):
    found = judged(*(version(rank, 418, 420) for rank in range(3))).diagnosis
    assert (found.kind, found.culprits) == ("nccl_timeout", ())
    assert "nobody is missing" in found.summary


@pytest.mark.parametrize("version", [before_2_1, in_2_4, in_2_10])
def test_another_operation_at_the_same_number(version):
    found = judged(version(0, 5, 5), version(1, 5, 5, op="_ALLGATHER_BASE"), version(2, 5, 5)).diagnosis
    assert (found.kind, found.culprits) == ("different_collectives", (1,))
    assert "all_gather_into_tensor()" in found.summary


def test_another_size_at_the_same_number():
    found = judged(in_2_4(0, 5, 5), in_2_4(1, 5, 5, size=7), in_2_4(2, 5, 5)).diagnosis
    assert (found.kind, found.culprits) == ("different_sizes", (1,))
    assert "all_reduce() of 7 elements on rank 1" in found.summary


def test_sizes_of_an_all_to_all_may_differ():
    parts = [in_2_4(rank, 5, 5, op="ALLTOALL_BASE", size=rank + 1) for rank in range(2)]
    assert judged(*parts).diagnosis.kind == "nccl_timeout"


def test_a_rank_that_is_through_with_a_collective_is_ahead():
    found = judged(in_2_4(0, 5, 5), in_2_4(1, 6, 6), in_2_4(2, 6, 6)).diagnosis
    assert (found.kind, found.culprits) == ("skipped_collective", (0,))
    found = judged(before_2_1(0, 5, 5), before_2_1(1, 6, 6)).diagnosis
    assert found.kind == "nccl_timeout"
    assert "rank 1 waits in number 6" in found.summary.lower()


def test_only_of_a_call_with_a_root_is_one_rank_said_to_be_through():
    advice = [
        judged(before_2_1(0, 5, 5, op=op), before_2_1(1, 6, 6, op=op)).diagnosis.advice
        for op in ("ALLREDUCE", "BROADCAST")
    ]
    assert ["root" in each for each in advice] == [False, True]


@pytest.mark.parametrize("version", [before_2_1, in_2_4, in_2_10])
def test_the_log_of_one_rank_does_not_tell_whether_the_others_came(version):
    found = judged(version(0, 418, 420)).diagnosis
    assert (found.kind, found.culprits) == ("nccl_timeout", ())
    assert "no other rank" in found.summary
    assert "nobody is missing" not in found.summary


def test_an_exception_on_a_rank_that_did_not_come_is_the_cause():
    error = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/job/train.py", line 61, in step',
        "[rank1]:     loss = loss_of(batch)",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    ]
    later = ["[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0."]
    found = judged(error, in_2_10(0, 418, 418), told(1, 417), later).diagnosis
    assert (found.kind, found.culprits) == ("rank_raised", (1,))
    assert "OutOfMemoryError" in found.summary
    assert "at train.py, line 61" in found.summary


def test_an_exception_of_a_rank_that_has_timed_out_came_later():
    late = ["[rank0]: RuntimeError: CUDA error: unspecified launch failure"]
    found = judged(in_2_10(0, 418, 418), told(1, 417), late).diagnosis
    assert found.culprits == (1,)


def test_a_rank_that_was_killed_is_named_by_torchruns_summary():
    summary = ["  rank      : 1 (local_rank: 1)", "  exitcode  : -9 (pid: 4242)"]
    summary += ["  rank      : 0 (local_rank: 0)", "  exitcode  : -6 (pid: 4241)"]
    found = judged(in_2_10(0, 418, 418), summary).diagnosis
    assert (found.kind, found.culprits) == ("rank_killed", (1,))
    assert "signal 9" in found.summary


def test_the_group_in_which_somebody_is_missing_is_told():
    """A group of two that waits because one of them waits elsewhere is named by torch, too, and often first."""
    pair = [
        line.replace("PG ID 0 PG GUID 0(default_pg)", "PG ID 3 PG GUID 7(mesh_tp)")
        for line in in_2_10(0, 90, 90)
    ]
    found = judged(pair, in_2_10(2, 40, 40), told(1, 39)).diagnosis
    assert "default group" in found.summary
    assert found.culprits == (1,)
    end = "[PG ID 3 PG GUID 7(mesh_tp) Rank 0] Process group watchdog thread terminated with exception: "
    again = f"[rank0]:[E709 17:06:38.36 ProcessGroupNCCL.cpp:2197] {end}{next(in_2_10(0, 90, 90)).partition('] ')[2]}"
    assert "group 7" in judged(pair, again).diagnosis.summary


def test_a_log_without_the_watchdog():
    with pytest.raises(NoWatchdogError):
        judged(["epoch 3: loss 0.41", told(1, 3)])


def test_files_and_standard_input_are_read_by_the_command(tmp_path):
    files = []
    for rank, lines in {0: in_2_10(0, 418, 418), 1: [told(1, 417)]}.items():
        files.append(tmp_path / f"{rank}.log")
        files[-1].write_text("\n".join(lines), encoding="utf-8")
    run = CliRunner().invoke
    asked = run(application(), ["doctor", "--json", "--log", *map(str, files)])
    (record,) = json.loads(asked.stdout)["runs"]
    assert asked.exit_code == 1
    assert record["diagnosis"]["id"] == "skipped_collective"
    assert [(rank["culprit"], rank["line"]) for rank in record["ranks"]] == [(False, 88), (True, None)]
    asked = run(
        application(), ["doctor", "--log", "-"], input="".join(f"{line}\n" for line in in_2_10(0, 4, 4))
    )
    assert "[nccl_timeout]" in asked.stdout
    asked = run(application(), ["doctor", "--log", str(tmp_path / "none")])
    assert asked.exit_code == 2
    assert "cannot be read" in asked.stderr
