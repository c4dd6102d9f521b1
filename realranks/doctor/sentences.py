"""The doctor's sentences, read from `diagnoses.toml`: a table for each kind of diagnosis, filled in by rules.

    [uneven_batches]
    says = "{early} {early:has} finished after {done}, and {late} {late:waits} in {reached}."
    left = "{early} {early:has} left the loop after {done}."
    advice = "give every rank the same number of batches."
    lessons = [5, 3]

`uneven_batches.left` is the same kind in other words; `left_advice` is its own advice, if it has one, and so on. A
variant of which only the advice is its own keeps what `says` says. A word that is a collection of ranks is written as
such a list, `{early}`, or as a verb that fits their number, `{early:has}`; a collective or a rank's wait is written
with its line.
"""

from __future__ import annotations

import functools
import pkgutil
import re
import tomllib
from collections.abc import Collection, Iterable
from typing import Any

from realranks.doctor.lessons import taught_in
from realranks.doctor.words import capital, located, positions, rank_list, verb, waits_in
from realranks.outcome.outcome import Collective, Diagnosis, Outcome, Waiting

#: What is filled into a sentence, by name.
Words = dict[str, Any]
#: What a variant may have of its own beside its sentence, and what stands there where a kind has none.
_OWN: dict[str, Any] = {"advice": "", "lessons": (), "warning": False}
_PLACE = re.compile(r",? at \{(\w+)\}")
_MANY = {"is": "are", "has": "have", "was": "were", "does": "do", "it": "they", "It": "They", "its": "their"}


class _Ranks:
    """Ranks in a sentence."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self.ranks = list(ranks)

    def __format__(self, word: str) -> str:
        if not word:
            return rank_list(self.ranks)
        return verb(self.ranks, word, _MANY.get(word) or word.removesuffix("s"))


def diagnosis(
    name: str,
    outcome: Outcome | None,
    culprits: Iterable[int] = (),
    evidence: tuple[str, ...] | None = None,
    /,
    **words: object,
) -> Diagnosis:
    """Build a diagnosis from the sentences under `name` in `diagnoses.toml`: a kind, or `kind.variant`.

    Args:
        evidence: by default, what each rank of the outcome is doing, with the culprits marked.

    Raises:
        KeyError: the table has no such kind, or nothing for this variant.
    """
    kind, _, variant = name.partition(".")
    table = _tables()[kind]
    if variant and table.keys().isdisjoint({variant, *(f"{variant}_{what}" for what in _OWN)}):
        raise KeyError(name)
    advice, lessons, warning = (
        table.get(f"{variant}_{what}", table.get(what, default)) for what, default in _OWN.items()
    )
    culprits = tuple(culprits)
    if evidence is None:
        evidence = positions(outcome, culprits) if outcome is not None else ()
    return Diagnosis(
        kind,
        capital(text(table.get(variant) or table["says"], **words)),
        culprits,
        evidence,
        text(advice, **words),
        taught_in(*lessons),
        warning,
    )


def text(template: str, /, **words: object) -> str:
    """Fill the words into a template; drop ` at {where}` if no line is known."""
    template = _PLACE.sub(lambda found: "" if words[found[1]] == "" else found[0], template)
    return template.format(**{name: _word(value) for name, value in words.items()})


def _word(value: object) -> object:
    if isinstance(value, Collective):
        return located(value)
    if isinstance(value, Waiting):
        return waits_in(value)
    return _Ranks(value) if isinstance(value, Collection) and not isinstance(value, str) else value


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((pkgutil.get_data("realranks.doctor", "diagnoses.toml") or b"").decode())
