"""Parameters that an optimizer steps and no DDP model holds: who averages their gradients?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from realranks.doctor.history import END, Difference, Moment, lasting, made_equal_again, moment, ordered
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import names_in_a_row, shaped, who_differs
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import Digest, OutsideCheck, OutsideParameter

#: Collectives that carry no data.
_EMPTY = ("barrier", "monitored_barrier")
Checks = Mapping[int, OutsideCheck]


@dataclass(frozen=True)
class Stepped:
    """The parameters outside every DDP model that one optimizer steps, on every rank.

    Attributes:
        checks: by step, and then by rank, what was noted where all ranks have looked (`watch.weights.outside_check`).
    """

    checks: Mapping[int, Checks]

    def names(self) -> list[str]:
        """Name the parameters as the code does, or else by shape."""
        rows = [check.parameters for each in self.checks.values() for check in each.values()]
        return [
            next((each[place].name for each in rows if each[place].name), "") or shaped(row.shape)
            for place, row in enumerate(rows[0])
        ]

    def moments(self) -> list[Moment]:
        """Return, for each step, whether ranks that should hold the same data did."""
        names = self.names()
        return ordered(moment(step, _tensors(names, by_rank, _data)) for step, by_rank in self.checks.items())

    def comparable(self) -> bool:
        """Check that some parameter is meant to be the same on several ranks."""
        return any(True for each in self.checks.values() for _ in _tensors(self.names(), each, _data))

    def same_gradients(self) -> bool:
        """Check that the non-zero gradients were equal on all ranks in every recorded step."""
        names = self.names()
        seen = [
            digests
            for step, by_rank in self.checks.items()
            if step != END
            for _, digests in _tensors(names, by_rank, _gradient)
            if any(any(values) for _, values in digests.values())
        ]
        return bool(seen) and all(len({str(crc) for crc, _ in each.values()}) == 1 for each in seen)

    def in_pieces(self) -> bool:
        """Check that ranks hold some of the parameters in pieces (DTensors)."""
        rows = next(iter(next(iter(self.checks.values())).values())).parameters
        return any(row.among for row in rows)

    def beside_ddp(self) -> bool:
        """Check that the same optimizer also steps parameters of a DDP model."""
        return any(check.beside_ddp for each in self.checks.values() for check in each.values())

    def settings_differ(self) -> bool:
        """Check that the optimizers' options differ from the beginning."""
        return len({str(check.settings) for check in self._by_step()[0].values()}) > 1

    def settings_came_apart(self) -> bool:
        """Check that the optimizers' options differ at some moment."""
        return any(len({str(check.settings) for check in each.values()}) > 1 for each in self._by_step())

    def _by_step(self) -> list[Checks]:
        order = sorted(self.checks, key=lambda step: step if step != END else float("inf"))
        return [self.checks[step] for step in order]


def stepped_outside(notes: Notes) -> list[Stepped]:
    """Pair the parameters that optimizers step outside of DDP models, between ranks and by shape.

    Optimizers that only some ranks have are not compared.
    """
    pairs: dict[tuple[str, int], dict[int, Mapping[int, OutsideCheck]]] = {}
    for rank, probe in notes.items():
        own: dict[int, dict[int, OutsideCheck]] = {}
        for check in probe.outside:
            own.setdefault(check.optimizer, {})[check.step] = check
        alike: dict[str, int] = {}
        for checks in own.values():
            shapes = str([row.shape for row in next(iter(checks.values())).parameters])
            alike[shapes] = alike.get(shapes, -1) + 1
            pairs.setdefault((shapes, alike[shapes]), {})[rank] = checks
    found = []
    for (shapes, _), by_rank in pairs.items():
        if shapes == "[]" or set(by_rank) != set(notes):
            continue
        rows = len(next(iter(next(iter(by_rank.values())).values())).parameters)
        common = set.intersection(*(set(checks) for checks in by_rank.values()))
        together = {step: {rank: checks[step] for rank, checks in by_rank.items()} for step in sorted(common)}
        whole = {
            step: each
            for step, each in together.items()
            if all(len(check.parameters) == rows for check in each.values())
        }
        if whole:
            found.append(Stepped(whole))
    return found


def parameters_outside(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect parameters outside DDP that began equal, or get equal gradients, and end up different.

    A rank may have parameters of its own on purpose: a part of a model that is cut into pieces, a model with other
    settings, an expert. Those were never equal, or their optimizers have different settings, or their ranks exchange
    messages or activations.
    """
    worth_knowing = None
    for stepped in stepped_outside(notes):
        found = lasting(stepped.moments())
        if found is None:
            continue
        fault = _judged(outcome, notes, stepped, found)
        if fault is not None and not fault.warning:
            return fault
        worth_knowing = worth_knowing or fault
    return worth_knowing


def on_purpose(outcome: Outcome, notes: Notes) -> list[str]:
    """Describe, in clauses, parameters that differ between ranks presumably on purpose."""
    found = []
    for stepped in stepped_outside(notes):
        moments = stepped.moments()
        last = moments[-1].difference
        if last is None:
            continue
        names = names_in_a_row(last.names)
        if made_equal_again(moments):
            found.append(f"weights that are averaged now and then differ at the end ({names})")
        elif _judged(outcome, notes, stepped, last) is None:
            found.append(f"each rank trains parameters of its own, taken to be meant so ({names})")
    return found


def _judged(outcome: Outcome, notes: Notes, stepped: Stepped, found: Difference) -> Diagnosis | None:
    """Judge whether these differences are a fault, perhaps one, or intended (None)."""
    first = stepped.moments()[0].difference
    if stepped.same_gradients() and moves_data(outcome):
        return _equal_gradients(stepped, found, started_apart=first is not None)
    if stepped.in_pieces():
        return diagnosis("weights_differ.replicas", None, names=_listed(found), size=_size_and_ranks(found))
    if first is not None:
        beside = diagnosis("parameters_outside.beside", None, names=_listed(found))
        return beside if stepped.beside_ddp() else None
    if _cut_into_parts(outcome, notes) or (stepped.settings_differ() and not stepped.beside_ddp()):
        return None
    if _has_ddp(notes) or _means_one_model(outcome, notes, stepped):
        return _not_averaged(notes, found)
    return diagnosis("parameters_outside.own", None, ranks=notes, names=_listed(found))


def _has_ddp(notes: Notes) -> bool:
    return any(probe.models for probe in notes.values())


def _not_averaged(notes: Notes, found: Difference) -> Diagnosis:
    strange = {rank: probe.strange[0] for rank, probe in notes.items() if probe.strange}
    if strange:
        culprits = strange if len(strange) < len(notes) else ()
        words = {"strange": strange, "call": next(iter(strange.values())), "names": _listed(found)}
        return diagnosis("parameters_outside.strange", None, culprits, **words)
    name = "parameters_outside" if _has_ddp(notes) else "parameters_outside.without_ddp"
    return diagnosis(name, None, names=_listed(found))


def moves_data(outcome: Outcome) -> bool:
    """Check that ranks have issued collectives that carry data."""
    return any(record.op not in _EMPTY for records in outcome.recorded.values() for record in records)


def _means_one_model(outcome: Outcome, notes: Notes, stepped: Stepped) -> bool:
    """Check that the ranks train one model together: the script splits samples among them, or moves weights."""
    loaders = [loader for probe in notes.values() for loader in probe.loaders if loader.trains]
    if any(loader.sampler == "DistributedSampler" for loader in loaders):
        return True
    rows = next(iter(next(iter(stepped.checks.values())).values())).parameters
    sizes = [math.prod(row.shape) for row in rows]
    wanted = {size for size in (*sizes, sum(sizes)) if size > 1}
    return any(
        sum(map(math.prod, record.sizes)) in wanted
        for records in outcome.recorded.values()
        for record in records
    ) or any(probe.strange for probe in notes.values())


def _listed(found: Difference) -> str:
    more = f" and {len(found.names) - 4} more" if len(found.names) > 4 else ""
    return ", ".join(found.names[:4]) + more


def _size_and_ranks(found: Difference) -> str:
    """Format as ` (by 0.1 or more; rank 1 from ranks 0 and 2)`, as far as known."""
    size = f"by {found.at_least:.1g} or more" if found.at_least is not None else ""
    words = "; ".join(filter(None, (size, who_differs(found.alike))))
    return f" ({words})" if words else ""


def _equal_gradients(stepped: Stepped, found: Difference, started_apart: bool) -> Diagnosis:
    """Diagnose data parallelism by hand whose gradients agree on all ranks, but whose weights do not."""
    size = _size_and_ranks(found)
    if stepped.settings_came_apart():
        return diagnosis("optimizer_differs.by_hand", None, names=_listed(found), size=size)
    since = "they were different from the beginning" if started_apart else "something else has changed them"
    return diagnosis("weights_differ.by_hand", None, names=_listed(found), size=size, since=since)


def _cut_into_parts(outcome: Outcome, notes: Notes) -> bool:
    """Check for messages, or collectives in the model's own forward: the ranks hold parts of one model."""
    if any(probe.messages for probe in notes.values()):
        return True
    return any(
        record.origin is not None and record.origin.function in ("forward", "backward") and not record.stage
        for records in outcome.recorded.values()
        for record in records
    )


def _data(row: OutsideParameter) -> Digest:
    return row.data


def _gradient(row: OutsideParameter) -> Digest:
    return row.gradient


def _tensors(
    names: list[str], by_rank: Checks, digest_of: Callable[[OutsideParameter], Digest]
) -> Iterator[tuple[str, dict[int, Digest]]]:
    """Yield each parameter with the digests of the ranks that should hold the same data of it."""
    for place, name in enumerate(names):
        rows = {rank: check.parameters[place] for rank, check in by_rank.items()}
        among = {rank: tuple(by_rank) if row.among is None else row.among for rank, row in rows.items()}
        for ranks in dict.fromkeys(among.values()):
            if len(ranks) > 1 and all(among.get(rank) == ranks for rank in ranks):
                yield name, {rank: digest_of(rows[rank]) for rank in ranks}
