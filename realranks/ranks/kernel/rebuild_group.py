"""After a job on a gang: is the process group still whole, and what has the learner to know of it?"""

from __future__ import annotations

from collections.abc import Mapping

from realranks.outcome.fold import rank_list
from realranks.ranks import nccl_counts
from realranks.ranks.kernel.job import PEER_LOST, Run, what_was_run

#: After one of these a group refuses everything that follows: gloo's, then NCCL's (read in torch's NCCLUtils.cpp).
_GROUP_BROKEN = (
    *PEER_LOST,
    "timed out waiting",
    "application timeout caused",
    "pair closure",
    "nccl communicator was aborted",
    "nccl error",
    "watchdog caught collective operation timeout",
)


def rebuilt_note(moved: int | None) -> str:
    """Report a group that was rebuilt: with so many DDP models moved to it, or, with None, in vain."""
    if moved is None:
        return "The process group could not be rebuilt: the ranks have to be restarted."
    note = (
        "The process group has been rebuilt; variables are kept. Tensors that were in a collective may hold partial "
        "sums: set them again."
    )
    if moved:
        note += f" {moved} DDP model(s) moved to the new group: check that their weights are still equal."
    return note


def variables_lost(run: Run) -> tuple[str, ...]:
    """Report that ranks had to be ended, unless the user pressed stop and reads it in the outcome."""
    if not run.killed or run.interrupted:
        return ()
    ended = f"{rank_list(run.killed).capitalize()} could not be freed and had to be ended."
    return (f"{ended} The variables of all ranks are lost: the next %%ranks starts new ranks.",)


def group_is_broken(run: Run) -> bool:
    """Check for a rank that was freed from the group or found it broken, or for unequal numbers after an error."""
    messages = [done.error.message.lower() for done in run.done.values() if done.error is not None]
    if run.freed or any(sign in message for message in messages for sign in _GROUP_BROKEN):
        return True
    issued = [done.sequence for done in run.done.values()]
    groups = {name for numbers in issued for name in numbers}
    unequal = any(len({numbers[name] for numbers in issued if name in numbers}) > 1 for name in groups)
    return bool(messages) and unequal


def gpu_notes(run: Run, before: Mapping[int, Mapping[str, int]]) -> tuple[str, ...]:
    """Report GPUs that wait for each other, or that still work, after a job that has left the group whole.

    Args:
        before: how many operations each rank had issued on each of its groups before the job.
    """
    apart = _apart_on_gpus(run, before)
    return (*apart, *_still_on_gpus(run, bool(apart)))


def _still_on_gpus(run: Run, apart: bool) -> tuple[str, ...]:
    """Report ranks that ended a job while their GPU still worked: computing, or waiting for other ranks.

    A rank that waited for one which came later has probably been served meanwhile, so it is left out, unless ranks have
    issued different numbers of collectives.
    """
    busy = {rank: done for rank, done in sorted(run.done.items()) if done.gpu_busy}
    if not busy:
        return ()
    left_at = max(done.ended_ns for done in busy.values())
    if not apart and any(done.ended_ns > left_at for rank, done in run.done.items() if rank not in busy):
        return ()
    what = what_was_run(run.job)
    if len(busy) == 1:
        said = f"When this {what} ended, the GPU of {rank_list(busy)} had not finished its work: it computed, or waited"
    else:
        said = f"When this {what} ended, the GPUs of {rank_list(busy)} had not finished: they computed, or waited"
    return (f"{said} for other ranks. The next line that needs a result waits for that, too.",)


def _apart_on_gpus(run: Run, before: Mapping[int, Mapping[str, int]]) -> tuple[str, ...]:
    """Report GPUs left waiting for each other by a job that ended well: NCCL's calls return before they are done."""
    grown = {
        rank: {name: number - before.get(rank, {}).get(name, 0) for name, number in done.sequence.items()}
        for rank, done in run.done.items()
    }
    return tuple(
        "The ranks have issued different numbers of collectives on their GPUs: in this "
        f"{what_was_run(run.job)}, {nccl_counts.sentence(counts)}. NCCL's collectives return at "
        "once, so nothing has failed yet. The next line that needs a result (.item(), .cpu(), print) waits forever, "
        "or a later collective will be matched with the one that is still open."
        for counts in nccl_counts.apart(grown).values()
    )
