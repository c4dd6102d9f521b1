"""After a run: compare with the expectation, show everything, let predictions be decided, fail the cell if need be."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from course_lib.notebook.predict import Foreseen
from course_lib.notebook.refused import Refused, Stopped, UnexpectedOutcome
from course_lib.notebook.show import View
from course_lib.outcome.expect import Expectation, ExpectationError, in_words
from course_lib.outcome.outcome import Outcome
from course_lib.ranks.kernel.backend import BackendError
from course_lib.ranks.kernel.gang import GangError, State
from course_lib.ranks.kernel.launcher import LaunchError

_WAYS_ON: dict[State | None, str] = {
    State.STOPPED: " `%%ranks 4` starts four new ones.",
    State.BROKEN: " `%ranks restart` starts new ones.",
}


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what the learner can put right into one clear line."""
    try:
        yield
    except GangError as error:
        raise Refused(f"{error}{_WAYS_ON.get(error.state, '')}") from None
    except (BackendError, LaunchError, ExpectationError) as error:
        raise Refused(str(error)) from None
    except TypeError as error:
        if str(error).startswith("Cannot be sent"):
            raise Refused(str(error)) from None
        raise
    except KeyboardInterrupt:
        raise Stopped("stopped") from None


def judged(outcome: Outcome, expectation: Expectation | Foreseen, view: View) -> Outcome:
    """Show the outcome in the light of what was expected; returns it when it was.

    What a prediction foresees is shown without a mark: whether it was expected, the learner says. No other run decides
    a question: a look at a variable before the deciding cell leaves it open.

    Raises:
        Stopped: the learner pressed stop. UnexpectedOutcome: it ended in another way, or a fault never struck.
    """
    met = expectation.met_by(outcome)
    if outcome.interrupted and not met:
        view.finish(outcome)
        raise Stopped("stopped")
    unmarked = isinstance(expectation, Foreseen) or expectation == Expectation.parse("ok")
    outcome = dataclasses.replace(outcome, expected=None if unmarked and met else met)
    view.finish(outcome)
    if isinstance(expectation, Foreseen) and not expectation.again:
        expectation.prediction.reveal(outcome)
    if not met:
        raise UnexpectedOutcome(f"expected {expectation}, but {in_words(outcome)}.", outcome)
    if outcome.ok and outcome.never_struck:
        # Else one would believe that the code has survived it.
        raise UnexpectedOutcome(outcome.never_struck[0], outcome)
    return outcome
