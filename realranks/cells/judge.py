"""After a run: compare with the expectation, show everything, let predictions be decided, fail the cell if need be."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from realranks.cells.foresight import Foreseen
from realranks.cells.refused import Interrupted, UnexpectedOutcome, UsageError
from realranks.cells.show import View
from realranks.outcome.expect import Expectation, ExpectationError, in_words
from realranks.outcome.outcome import Outcome
from realranks.ranks.kernel.backend import BackendError
from realranks.ranks.kernel.gang import GangError, GangOverError, State
from realranks.ranks.kernel.launcher import LaunchError

_WAYS_ON: dict[State, str] = {
    State.STOPPED: " `%%ranks 4` starts four new ones.",
    State.BROKEN: " `%ranks restart` starts new ones.",
}


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what the learner can put right into one clear line."""
    try:
        yield
    except GangOverError as error:
        raise UsageError(f"{error}{_WAYS_ON[error.state]}") from None
    except (GangError, BackendError, LaunchError, ExpectationError) as error:
        raise UsageError(str(error)) from None
    except TypeError as error:
        if str(error).startswith("Cannot be sent"):
            raise UsageError(str(error)) from None
        raise
    except KeyboardInterrupt:
        raise Interrupted("stopped") from None


def show_and_check(outcome: Outcome, expectation: Expectation | Foreseen, view: View) -> Outcome:
    """Show the outcome in the light of what was expected; returns it when it was.

    What a prediction foresees is shown without a mark: whether it was expected, the learner says. No other run decides
    a question: a look at a variable before the deciding cell leaves it open.

    Raises:
        Interrupted: the learner pressed stop. UnexpectedOutcome: it ended in another way, or a fault never struck.
    """
    met = expectation.met_by(outcome)
    if outcome.interrupted and not met:
        view.finish(outcome)
        raise Interrupted("stopped")
    unmarked = not isinstance(expectation, Expectation) or expectation == Expectation.parse("ok")
    outcome = dataclasses.replace(outcome, expected=None if unmarked and met else met)
    view.finish(outcome)
    if not isinstance(expectation, Expectation):
        expectation.decide(outcome)
    if not met:
        raise UnexpectedOutcome(f"expected {expectation}, but {in_words(outcome)}.", outcome)
    if outcome.ok and outcome.never_struck:
        # Else one would believe that the code has survived it.
        raise UnexpectedOutcome(outcome.never_struck[0], outcome)
    return outcome
