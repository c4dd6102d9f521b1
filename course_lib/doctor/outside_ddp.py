"""Parameters that an optimizer steps and no DDP model holds: who averages their gradients?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from course_lib.doctor.history import END, Difference, Moment, lasting, made_equal_again, moment, ordered
from course_lib.doctor.notes import Notes
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.words import names_in_a_row, shaped, who_differs
from course_lib.outcome.outcome import Diagnosis, Outcome
from course_lib.outcome.probe_notes import Digest, OutsideCheck, OutsideParameter

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
        """What the parameters are called in the code, or their shapes."""
        rows = [check.parameters for each in self.checks.values() for check in each.values()]
        return [
            next((each[place].name for each in rows if each[place].name), "") or shaped(row.shape)
            for place, row in enumerate(rows[0])
        ]

    def moments(self) -> list[Moment]:
        """When ranks that are to hold the same data did, and when they did not."""
        names = self.names()
        return ordered(moment(step, _tensors(names, by_rank, _data)) for step, by_rank in self.checks.items())

    def comparable(self) -> bool:
        """True when some ranks are to hold the same data of some parameter."""
        return any(True for each in self.checks.values() for _ in _tensors(self.names(), each, _data))

    def same_gradients(self) -> bool:
        """True when every gradient that is not zero was the same on all ranks, in every step that was looked at."""
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
        """True when some of the parameters are on each rank in pieces (DTensors)."""
        rows = next(iter(next(iter(self.checks.values())).values())).parameters
        return any(row.among for row in rows)

    def beside_ddp(self) -> bool:
        """True when the same optimizer steps parameters of a DDP model, too."""
        return any(check.beside_ddp for each in self.checks.values() for check in each.values())

    def settings_differ(self) -> bool:
        """True when the optimizers have different options from the beginning."""
        return len({str(check.settings) for check in self._by_step()[0].values()}) > 1

    def settings_came_apart(self) -> bool:
        """True when they have different options at some moment."""
        return any(len({str(check.settings) for check in each.values()}) > 1 for each in self._by_step())

    def _by_step(self) -> list[Checks]:
        order = sorted(self.checks, key=lambda step: step if step != END else float("inf"))
        return [self.checks[step] for step in order]


def stepped_outside(notes: Notes) -> list[Stepped]:
    """What optimizers step outside of DDP models, paired between ranks by the shapes of the parameters.

    Optimizers that only some ranks have are those ranks' own.
    """
    pairs: dict[tuple[str, int], dict[int, Mapping[int, OutsideCheck]]] = {}
    for rank, told in notes.items():
        own: dict[int, dict[int, OutsideCheck]] = {}
        for check in told.outside:
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
    """Such parameters that were equal on all ranks at first, or get equal gradients, and are different at the end.

    A rank may also have parameters of its own on purpose: a part of a model that is cut into pieces, a model of
    another setting, an expert. Those were never equal, or their optimizers have different settings, or their ranks
    exchange messages or activations.
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
    """Clauses about parameters that differ between ranks and are taken to do so on purpose."""
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
    """Whether these differences are a fault, perhaps one, or meant (None)."""
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
    return any(told.models for told in notes.values())


def _not_averaged(notes: Notes, found: Difference) -> Diagnosis:
    strange = {rank: told.strange[0] for rank, told in notes.items() if told.strange}
    if strange:
        culprits = strange if len(strange) < len(notes) else ()
        words = {"strange": strange, "call": next(iter(strange.values())), "names": _listed(found)}
        return diagnosis("parameters_outside.strange", None, culprits, **words)
    name = "parameters_outside" if _has_ddp(notes) else "parameters_outside.without_ddp"
    return diagnosis(name, None, names=_listed(found))


def moves_data(outcome: Outcome) -> bool:
    """True when ranks have issued collectives that carry data."""
    return any(record.op not in _EMPTY for records in outcome.recorded.values() for record in records)


def _means_one_model(outcome: Outcome, notes: Notes, stepped: Stepped) -> bool:
    """True when the script shows that its ranks are to train one model: it deals samples to them, or moves weights."""
    loaders = [loader for told in notes.values() for loader in told.loaders if loader.trains]
    if any(loader.sampler == "DistributedSampler" for loader in loaders):
        return True
    rows = next(iter(next(iter(stepped.checks.values())).values())).parameters
    sizes = [math.prod(row.shape) for row in rows]
    wanted = {size for size in (*sizes, sum(sizes)) if size > 1}
    return any(
        sum(map(math.prod, record.sizes)) in wanted
        for records in outcome.recorded.values()
        for record in records
    ) or any(told.strange for told in notes.values())


def _listed(found: Difference) -> str:
    more = f" and {len(found.names) - 4} more" if len(found.names) > 4 else ""
    return ", ".join(found.names[:4]) + more


def _size_and_ranks(found: Difference) -> str:
    """` (by 0.1 or more; rank 1 from ranks 0 and 2)`, as far as it is known."""
    size = f"by {found.at_least:.1g} or more" if found.at_least is not None else ""
    told = "; ".join(filter(None, (size, who_differs(found.alike))))
    return f" ({told})" if told else ""


def _equal_gradients(stepped: Stepped, found: Difference, started_apart: bool) -> Diagnosis:
    """Data parallelism by hand: every gradient is the same on all ranks, and the weights are not."""
    size = _size_and_ranks(found)
    if stepped.settings_came_apart():
        return diagnosis("optimizer_differs.by_hand", None, names=_listed(found), size=size)
    since = "they were different from the beginning" if started_apart else "something else has changed them"
    return diagnosis("weights_differ.by_hand", None, names=_listed(found), size=size, since=since)


def _cut_into_parts(outcome: Outcome, notes: Notes) -> bool:
    """True when ranks exchange messages, or the model's own forward has collectives: they hold parts of one model."""
    if any(told.messages for told in notes.values()):
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
    """Each parameter with the digests of the ranks that are to hold the same data of it."""
    for place, name in enumerate(names):
        told = {rank: check.parameters[place] for rank, check in by_rank.items()}
        among = {rank: tuple(by_rank) if row.among is None else row.among for rank, row in told.items()}
        for ranks in dict.fromkeys(among.values()):
            if len(ranks) > 1 and all(among.get(rank) == ranks for rank in ranks):
                yield name, {rank: digest_of(told[rank]) for rank in ranks}
