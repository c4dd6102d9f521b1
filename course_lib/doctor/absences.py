"""Ranks that wait for others which have left the code, for each other in a circle, or for nobody."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.doctor.conditions import condition_of, rank_only_collective
from course_lib.doctor.counts import Done, calls_of_line, done_by, without_backward
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.model_order import different_order, order_diagnosis
from course_lib.doctor.notes import notes_of
from course_lib.doctor.passes import extra_pass, join_on_some_ranks, missing_forward
from course_lib.doctor.uneven import uneven_batches
from course_lib.doctor.words import (
    blocked_in,
    call_of,
    capital,
    collective_text,
    fewer,
    names_in_a_row,
    positions,
    rank_list,
    standing,
    steps,
    verb,
)
from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import DDPStage, Diagnosis, Kind, Outcome, Waiting
from course_lib.outcome.partners import Partners


def rank_left(outcome: Outcome) -> Diagnosis | None:
    """Ranks wait for others that have left the code, or for each other in a circle, or for nobody."""
    blocked = blocked_in(outcome)
    if outcome.kind is not Kind.HANG or not blocked:
        return None
    missing = sorted({rank for waiting in blocked.values() for rank in waiting.missing})
    gone = [rank for rank in missing if rank not in blocked]
    if gone:
        return _for_ranks_that_left(outcome, blocked, gone)
    if missing:
        # A rank that waits for a store's key, say, waits for nobody in particular: that is no circle.
        known = all(w.collective is not None or _to_a_rank(w) for w in blocked.values())
        return _circle(outcome, blocked) if known else None
    one_call = len(set(map(call_of, blocked.values()))) == 1
    return _nobody_answers(outcome, blocked) if one_call else None


def messages_that_do_not_meet(outcome: Outcome) -> Diagnosis | None:
    """A rank sends to another, which waits for a message of that rank with another tag, or in another group."""
    blocked = blocked_in(outcome) if outcome.kind is Kind.HANG else {}
    for rank, sender in blocked.items():
        sent = sender.partners
        receiver = blocked.get(sent.to) if sent is not None and sent.to is not None else None
        wanted = receiver.partners if receiver is not None else None
        if sent is None or receiver is None or wanted is None or wanted.call not in ("recv", "irecv"):
            continue
        if wanted.source in (rank, None) and not wanted.meets(sent):
            return _do_not_meet(outcome, (sender, sent), (receiver, wanted))
    return None


def _do_not_meet(
    outcome: Outcome, one: tuple[Waiting, Partners], other: tuple[Waiting, Partners]
) -> Diagnosis:
    (sender, sent), (receiver, wanted) = one, other
    tagged = sent.tag != wanted.tag
    what = (f" with tag {sent.tag}", f" with tag {wanted.tag}") if tagged else ("", " in another group")
    return Diagnosis(
        "different_tags" if tagged else "different_groups",
        f"Rank {sender.rank} waits in {call_of(sender)} at {sender.where} until rank {receiver.rank} receives its "
        f"message{what[0]}, and rank {receiver.rank} waits in {call_of(receiver)} at {receiver.where} for one"
        f"{what[1]}: a message is received only {'by its tag' if tagged else 'in its group'}.",
        (),
        positions(outcome),
        advice="look for the line at which one of the two has counted its tags once more, or once less, than the other "
        "has. Between two ranks messages come in the order in which they were sent, so that most scripts need no tags."
        if tagged
        else "name the same group in send() and recv().",
        lesson=taught_in(2, 0),
    )


def _for_ranks_that_left(outcome: Outcome, blocked: dict[int, Waiting], gone: list[int]) -> Diagnosis:
    """Those that are gone have left the code, or it never ran on them."""
    first = next(iter(blocked.values()))
    idle = [rank for rank in gone if rank not in outcome.ranks]
    if idle != gone and all(_to_a_rank(w) for w in blocked.values()):
        return _each_for_another(outcome, blocked, gone)
    if not idle:
        for rule in (_join_on_some, _built_on_some, _alternated, _guarded_wait, _behind):
            found = rule(outcome, blocked, gone, first)
            if found is not None:
                return found
    ways = []
    if idle:
        ways.append(f"{verb(gone, 'does', 'do')} not run this {outcome.what}")
    if idle != gone:
        ways.append(f"{verb(gone, 'has', 'have')} left the {outcome.what} without joining")
    return Diagnosis(
        "rank_left",
        f"{capital(rank_list(blocked))} {verb(blocked, 'waits', 'wait')} in {call_of(first)} at {first.where} for "
        f"{rank_list(gone)}, which {' or '.join(ways)}{_times(outcome, first, gone)}.",
        tuple(gone),
        positions(outcome, gone),
        advice="make every rank of the group reach this call, or none.",
        lesson=taught_in(0),
    )


def _each_for_another(outcome: Outcome, blocked: dict[int, Waiting], gone: list[int]) -> Diagnosis:
    """Sends and receives that wait for ranks which wait for others again, or are gone."""
    halves = {
        "receiving it" if w.partners is not None and w.partners.to is not None else "sending it"
        for w in blocked.values()
        if set(w.missing) & set(gone)
    }
    waits = "; ".join(standing(blocked, for_whom=True))
    return Diagnosis(
        "nobody_answers",
        f"{capital(waits)}, and {rank_list(gone)} {verb(gone, 'has', 'have')} left the "
        f"{outcome.what} without {halves.pop() if len(halves) == 1 else 'the other half'}.",
        tuple(gone),
        positions(outcome, gone),
        advice="every send needs a recv on the rank that it names, and every recv a send: look at what "
        f"{rank_list(gone)} did instead.",
        lesson=taught_in(2, 0),
    )


def _times(outcome: Outcome, first: Waiting, gone: list[int]) -> str:
    """How often the ranks came to this line, where it is a loop."""
    if first.collective is None:
        return ""
    calls = calls_of_line(outcome, first.collective)
    absent = {calls.get(rank, 0) for rank in gone}
    here = calls.get(first.rank, 0)
    if len(absent) != 1 or here <= 1 or not max(absent):
        return ""
    came = f"{verb(gone, 'it', 'they')} came to this line {steps(absent.pop(), 'time')}"
    return f" ({came}, and {rank_list([first.rank])} came {steps(here, 'time')})"


def waits_for(blocked: dict[int, Waiting], gone: Iterable[int], first: Waiting) -> str:
    """`rank 0 waits in backward() ... at train.py, line 3 for rank 1, which has finished`."""
    gone = list(gone)
    return (
        f"{rank_list(blocked)} {verb(blocked, 'waits', 'wait')} in {call_of(first)} at {first.where} for "
        f"{rank_list(gone)}, which {verb(gone, 'has', 'have')} finished"
    )


def _join_on_some(
    outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting
) -> Diagnosis | None:
    inside = [
        rank
        for rank, w in blocked.items()
        if w.collective is not None and w.collective.stage == DDPStage.JOIN
    ]
    if not inside or any(r.stage == DDPStage.JOIN for rank in gone for r in outcome.recorded.get(rank, ())):
        return None
    return join_on_some_ranks(outcome, inside, gone)


def _built_on_some(
    outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting
) -> Diagnosis | None:
    if not any(w.call == "DistributedDataParallel()" for w in blocked.values()):
        return None
    ranks = tuple(blocked)
    return Diagnosis(
        "ddp_on_some_ranks",
        f"{capital(rank_list(ranks))} {verb(ranks, 'wraps', 'wrap')} a model in DistributedDataParallel at "
        f"{first.where}, and {rank_list(gone)} {verb(gone, 'does', 'do')} not.",
        tuple(gone) if len(gone) <= len(ranks) else ranks,
        positions(outcome, gone if len(gone) <= len(ranks) else ranks),
        advice="the constructor broadcasts the weights: every rank of the group must call it, in the same order.",
        lesson=taught_in(9, 2),
    )


def _behind(
    outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting
) -> Diagnosis | None:
    """The ranks that left have made fewer steps: their data ended earlier, or they left out a backward pass."""
    stages = {w.collective.stage for w in blocked.values() if w.collective is not None}
    if first.collective is None or not stages & {DDPStage.GRADIENTS, DDPStage.BUFFERS, DDPStage.REBUILD}:
        return None
    since = f"now {waits_for(blocked, gone, first)}"
    found = extra_pass(outcome, list(blocked), gone, since) or missing_forward(
        outcome, first.rank, gone, since
    )
    if found is not None:
        return found
    done = done_by(outcome)
    mine, theirs = done[first.rank], done[gone[0]]
    more = mine.more_passes_than(theirs)
    if first.collective.stage == DDPStage.GRADIENTS and more.backwards and not more.forwards:
        less = (theirs.forwards or 0) - (theirs.backwards or 0)
        return _left_out(outcome, blocked, gone, first, less)
    calls = calls_of_line(outcome, first.collective)
    came = min(calls.get(rank, 0) for rank in gone)
    if came == 0 and DDPStage.GRADIENTS in stages:
        less = (mine.backwards or 0) - (theirs.backwards or 0)
        return _left_out(outcome, blocked, gone, first, less)
    if came == 0 and not more.forwards:
        return None
    word, here, there = _how_far(mine, theirs, (calls.get(first.rank, 0), came))
    reached = f"{word} {here} in {call_of(first)} at {first.where}"
    return uneven_batches(outcome, gone, blocked, steps(there, word), reached)


def _how_far(mine: Done, theirs: Done, came: tuple[int, int]) -> tuple[str, int, int]:
    """How far each came, and in what that is counted; `came`: to the line of the wait, if nothing else was counted."""
    if mine.batches and theirs.batches and mine.batches != theirs.batches:
        return "batch", mine.batches, theirs.batches
    if mine.more_passes_than(theirs).forwards:
        return "training step", mine.forwards or 0, theirs.forwards or 0
    return "training step", *came


def _left_out(
    outcome: Outcome,
    blocked: dict[int, Waiting],
    gone: list[int],
    first: Waiting,
    less: int,
) -> Diagnosis:
    """One side has made backward passes that the other has not; `less`: how many, where that was counted."""
    left_out = (without_backward(outcome, gone[0]) or 0) > 0
    condition = condition_of(outcome, blocked, first.collective, first)
    guarded = condition is not None and len(blocked) <= len(gone)
    if guarded or (len(blocked) < len(gone) and not left_out):
        because = f", because the line stands under `{condition}`" if condition else ""
        return Diagnosis(
            "extra_backward",
            f"Only {rank_list(blocked)} {verb(blocked, 'makes', 'make')} a backward pass at {first.where}{because}; "
            f"{rank_list(gone)} {verb(gone, 'does', 'do')} not.",
            tuple(blocked),
            positions(outcome, blocked),
            advice="run backward() of a DDP model the same number of times on every rank, or under no_sync().",
            lesson=taught_in(6),
        )
    unused = _unused(outcome, blocked, gone, first)
    if unused is not None:
        return unused
    number = f"{less} backward passes" if less > 1 else "a backward pass"
    odd = tuple(gone) if left_out else fewer(gone, blocked)
    return Diagnosis(
        "missing_backward",
        f"{capital(rank_list(gone))} {verb(gone, 'has', 'have')} left out {number}, and {rank_list(blocked)} "
        f"{verb(blocked, 'waits', 'wait')} in {call_of(first)} at {first.where}."
        if left_out
        else f"{capital(waits_for(blocked, gone, first))} without that backward pass.",
        odd,
        positions(outcome, odd),
        advice="every rank must make every backward pass. For a batch to be left out, multiply its loss by 0 or agree "
        "with an all_reduce first.",
        lesson=taught_in(6),
    )


def _unused(
    outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting
) -> Diagnosis | None:
    """Ranks that sent no gradients did make a backward pass: some of their parameters have one, and some have none."""
    notes = notes_of(outcome)
    missing: dict[int, tuple[str, ...]] = {}
    for rank in gone:
        noted = [(m.without_gradient, m.parameters) for m in notes[rank].models] if rank in notes else []
        seen = [(m.without_gradient, m.number) for m in outcome.facts.get(rank, NO_FACTS).models]
        for without, number in noted or seen:
            if 0 < len(without) < number:
                missing[rank] = without
    if set(missing) != set(gone):
        return None
    names = list(dict.fromkeys(name for listed in missing.values() for name in listed))
    return Diagnosis(
        "unused_parameters",
        f"On {rank_list(gone)}, {names_in_a_row(names)} got no gradient in the backward pass: nothing is sent there "
        f"before the last gradient has come, and {rank_list(blocked)} {verb(blocked, 'waits', 'wait')} in "
        f"{call_of(first)} at {first.where}.",
        tuple(gone),
        positions(outcome, gone),
        advice="let every parameter take part in the loss on every rank, or wrap with find_unused_parameters=True.",
        lesson=taught_in(8),
    )


def _alternated(
    outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting
) -> Diagnosis | None:
    """Ranks have made as many passes as others, but several forward passes before the backward passes."""
    notes = notes_of(outcome)
    if first.rank not in notes or not set(gone) <= notes.keys():
        return None
    mine, theirs = notes[first.rank], notes[gone[0]]
    if theirs.bare_backwards <= mine.bare_backwards or theirs.counts.forwards < mine.counts.forwards:
        return None
    place = next((m.events["bare_backward"] for m in theirs.models if "bare_backward" in m.events), "")
    return Diagnosis(
        "passes_in_another_order",
        f"{capital(rank_list(gone))} {verb(gone, 'has', 'have')} made a backward pass{f' at {place}' if place else ''} "
        f"without a forward pass since the one before, so that nothing was averaged in it; "
        f"{waits_for(blocked, gone, first)}.",
        tuple(gone),
        positions(outcome, gone),
        advice="make the same forward and backward passes in the same order on every rank: DDP averages once for all "
        "forward passes that stand before a backward pass.",
        lesson=taught_in(6),
    )


def _guarded_wait(
    outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting
) -> Diagnosis | None:
    came = _came(outcome, blocked, gone, first)
    if len(came) > len(gone):
        return None
    if first.collective is not None and first.collective.stage == DDPStage.GRADIENTS:
        return None
    condition = condition_of(outcome, came, first.collective, first)
    theirs = (outcome.recorded[rank][-1] for rank in gone if outcome.recorded.get(rank))
    if condition is None or any(condition_of(outcome, gone, record, None) is not None for record in theirs):
        return None  # ranks run code of their own: which of them does what the others do not?
    what = collective_text(first.collective) if first.collective is not None else call_of(first)
    return rank_only_collective(outcome, came, first.where, what, condition)


def _came(outcome: Outcome, blocked: dict[int, Waiting], gone: list[int], first: Waiting) -> tuple[int, ...]:
    """The ranks that have come to the collective: those that wait in it, and those for which it is over."""
    if first.collective is None:
        return tuple(blocked)
    number = (first.collective.group, first.collective.seq)
    through = {
        rank
        for rank, records in outcome.recorded.items()
        if rank not in gone and any((record.group, record.seq) == number for record in records)
    }
    return tuple(sorted({*blocked, *through}))


def _circle(outcome: Outcome, blocked: dict[int, Waiting]) -> Diagnosis:
    """All ranks wait, each for others that do, too."""
    return (
        _in_another_order(outcome, blocked)
        or _in_different_groups(outcome, blocked)
        or _each_for_the_next(outcome, blocked)
    )


def _in_another_order(outcome: Outcome, blocked: dict[int, Waiting]) -> Diagnosis | None:
    in_ddp = all(w.collective is not None and w.collective.stage for w in blocked.values())
    order = different_order(notes_of(outcome)) if in_ddp else None
    return order_diagnosis(order) if order is not None else None


def _in_different_groups(outcome: Outcome, blocked: dict[int, Waiting]) -> Diagnosis | None:
    """All are in one collective at one line, in groups of the same members."""
    records = [w.collective for w in blocked.values() if w.collective is not None]
    groups = {record.group for record in records}
    members = {outcome.facts.get(rank, NO_FACTS).groups.get(group) for rank in blocked for group in groups}
    calls = {(record.op, record.sizes) for record in records}
    lines = {w.where for w in blocked.values()}
    if len(groups) < 2 or not len(members) == len(calls) == len(lines) == 1:
        return None
    return Diagnosis(
        "different_groups",
        f"The ranks are waiting in the same collective at {lines.pop()}, but in different groups: none can go on.",
        (),
        positions(outcome),
        advice="create each group once, on all ranks in the same order, and name the same one on all its members.",
        lesson=taught_in(2, 0),
    )


def _each_for_the_next(outcome: Outcome, blocked: dict[int, Waiting]) -> Diagnosis:
    chain = [f"rank {rank} waits for {rank_list(w.missing)}" for rank, w in blocked.items() if w.missing]
    if all(map(_to_a_rank, blocked.values())):
        whom = f" ({', '.join(chain)})"
        advice = (
            "let one rank of the circle send before it receives, or give all sends and receives to "
            "batch_isend_irecv at once."
        )
    else:
        whom, advice = "", "every rank must issue the same collectives in the same order."
    return Diagnosis(
        "waiting_in_a_circle",
        f"None of the ranks can go on: {'; '.join(standing(blocked))}{whom}.",
        (),
        positions(outcome),
        advice=advice,
        lesson=taught_in(2, 0),
    )


def _to_a_rank(waiting: Waiting) -> bool:
    """True for send() and recv(), which name the rank they wait for."""
    named = waiting.partners is not None and waiting.partners.call in ("send", "isend", "recv", "irecv")
    return named or any(word in (waiting.call or "") for word in ("send", "recv"))


def _nobody_answers(outcome: Outcome, blocked: dict[int, Waiting]) -> Diagnosis:
    first = next(iter(blocked.values()))
    if first.call is not None and "send" in first.call:
        what = "a rank that will not receive it"
        advice = "look for the rank that should have received it, and did not."
    else:
        what = "something no other rank will send"
        advice = "look for the rank that should have sent, stored or joined, and did not."
    return Diagnosis(
        "nobody_answers",
        f"{capital(rank_list(blocked))} {verb(blocked, 'waits', 'wait')} in {call_of(first)} at {first.where} for "
        f"{what}.",
        (),
        positions(outcome),
        advice=advice,
        lesson=taught_in(2, 0),
    )
