"""Predict, observe, explain: the learner commits first, the deciding run says who was right.

    predict("Rank 2 skips the all_reduce. What happens?", {
        "everyone finishes": "ok",
        "rank 2 raises": "raises:2",
        "the others wait for ever": "hang",
    })

Each answer goes with what makes it right: an expectation (see `outcome.expect`), or a function that is given the
`Outcome` and says yes or no. `predict("00.skips")` asks a question of a lesson (see `course_lib.questions`).

The cell that decides says `%%ranks --predicted`: it accepts whatever the answers foresee, and so does not give away
which of them is right. A run that does not say so leaves the question open, whatever it does. A learner who has not
chosen is asked to, once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from course_lib.grading.progress import Progress
from course_lib.notebook.board import tell_vote
from course_lib.questions import Decider, Option, QuestionError, decider, in_drawn_order, question_named
from realranks.cells import foresight
from realranks.cells.refused import UsageError
from realranks.cells.show import in_notebook, is_attended, sent_before, show_html, widget_view
from realranks.outcome.expect import Expectation, ExpectationError, in_words
from realranks.outcome.html import ORANGE, box, panel, prose
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    import ipywidgets as widgets


#: Whatever happens in a cell makes it the active one, in JupyterLab and in Notebook 7: after a click on an answer, the
#: next Shift+Enter would ask again. This keeps the press, and the focus that follows it, from the notebook. The click
#: itself comes after them, and chooses. Who chooses by keyboard moves the focus, and the active cell with it.
_KEEP_ACTIVE_CELL = """<script>
    if (!window.ddpKeepsActiveCell) {
        window.ddpKeepsActiveCell = true;
        let pressed = false;
        const onAnswers = event => event.target.closest?.(".ddp-answers");
        window.addEventListener("keydown", () => { pressed = false; }, true);
        window.addEventListener("mousedown", event => {
            pressed = Boolean(onAnswers(event));
            if (pressed) { event.preventDefault(); event.stopPropagation(); }
        }, true);
        window.addEventListener("focusin", event => {
            if (pressed && onAnswers(event)) event.stopPropagation();
        }, true);
    }
</script>"""


def _is_right(decider: Decider, outcome: Outcome) -> bool:
    if isinstance(decider, Expectation):
        return decider.met_by(outcome)
    try:
        return bool(decider(outcome))
    except (LookupError, TypeError):
        if outcome.ok:
            raise
        return False  # it asks for what a run that failed has not left


class Prediction:
    """An open question. `choose(...)` commits from the keyboard; the outcome of the deciding run says who was right."""

    def __init__(
        self,
        question: str,
        answers: Mapping[str, Decider],
        replies: Mapping[str, str] | None = None,
        name: str = "",
    ) -> None:
        self.question = question
        self.name = name
        self.answers = dict(answers)
        self.replies = dict(replies or {})
        self.choice: str | None = None
        self.outcome: Outcome | None = None
        self.shown = datetime.now(UTC)
        self._status: widgets.HTML | None = None
        self._radio: widgets.RadioButtons | None = None

    def choose(self, answer: str | int) -> None:
        """Commit to an answer, by its text or its number (from 1). Until the run you may change your mind.

        Raises:
            UsageError: there is no such answer, or the run has already decided.
        """
        if self.outcome is not None:
            raise UsageError(
                "The run has already decided this one: run the predict cell again to predict again."
            )
        texts = list(self.answers)
        if isinstance(answer, int) and 1 <= answer <= len(texts):
            answer = texts[answer - 1]
        if answer not in self.answers:
            options = "; ".join(f"{number}: {text}" for number, text in enumerate(texts, 1))
            raise UsageError(f"There is no answer {answer!r}. Choose by text or number: {options}.")
        if self.choice != answer:  # setting the radio button below calls this function again
            tell_vote(self.question, texts, str(answer))
        self.choice = str(answer)
        if self._radio is not None and self._radio.value != self.choice:
            self._radio.value = self.choice
        self._tell(f"Your prediction: {self.choice}. Now run the next cell: it decides.")

    def __call__(self, answer: str | int) -> None:
        """Call `choose`."""
        self.choose(answer)

    @property
    def words(self) -> tuple[str, ...]:
        """The question and its answers: those of another prediction are the same where the cell was run again."""
        return (self.question, *self.answers)

    def __repr__(self) -> str:
        lines = [self.question, *(f"  {number}. {text}" for number, text in enumerate(self.answers, 1))]
        return "\n".join(lines)

    def foresees(self, outcome: Outcome) -> bool:
        """Check whether one of the answers, the learner's or another, is right."""
        return any(
            _is_right(decider, outcome)
            for decider in self.answers.values()
            # What a stopped run has left in variables says nothing.
            if isinstance(decider, Expectation) or not outcome.interrupted
        )

    def reveal(self, outcome: Outcome) -> None:
        """Show what the run decided; the question is no longer open."""
        self.outcome = outcome
        QUESTIONS.open = [question for question in QUESTIONS.open if question is not self]
        right = [text for text, decider in self.answers.items() if _is_right(decider, outcome)]
        happened = in_words(outcome)
        truth = f"“{right[0]}”" if right else f"none of the answers: {happened}"
        reply = ""
        if self.choice is None:
            mood, text = "ask", f"The run says {truth}. (No prediction was made.)"
            status = "The run has decided: see its output."
        elif self.choice in right:
            mood, text = "good", f"✓ You predicted “{self.choice}”, and so it is."
            status = "✓ The run agrees."
        else:
            mood, text = "ask", f"✗ You predicted “{self.choice}”. The run says {truth}."
            status = "✗ The run says otherwise: see its output."
            reply = self.replies.get(self.choice, "")
        if self.name and self.choice is not None:
            Progress().prediction(self.name, self.choice in right)
        if self._radio is not None:
            self._radio.disabled = True
        self._tell(status)
        below = f'<div style="margin: 4px 0 0 0">{prose(reply)}</div>' if reply else ""
        show_html("\n".join(filter(None, (text, reply))), panel(box(mood, text, below)))

    def _tell(self, text: str) -> None:
        if self._status is not None:
            self._status.value = f"<i>{prose(text)}</i>"

    def show(self) -> None:
        """Ask the question: radio buttons where there are widgets, numbered answers in any case."""
        if not in_notebook():
            print(repr(self), flush=True)
            return
        from IPython.display import display

        bundle: dict[str, object] = {"text/plain": repr(self), "text/html": self._html()}
        with contextlib.suppress(ImportError):
            bundle.update(self._widget_view())
            if is_attended():
                display({"text/plain": "", "text/html": _KEEP_ACTIVE_CELL}, raw=True)
        display(bundle, raw=True)

    def _html(self) -> str:
        items = "".join(f'<li style="margin: 2px 0">{prose(text)}</li>' for text in self.answers)
        return panel(box("ask", self.question, f'<ol style="margin: 4px 0; padding-left: 2em">{items}</ol>'))

    def _widget_view(self) -> dict[str, object]:
        import ipywidgets as widgets

        self._radio = widgets.RadioButtons(
            # Labels are plain text.
            options=[(text.replace("`", ""), text) for text in self.answers],
            value=None,
            layout=widgets.Layout(width="auto", margin="0 0 0 12px"),
        )
        self._radio.add_class("ddp-answers")
        self._status = widgets.HTML("<i>Choose before you run the next cell.</i>")
        question = widgets.HTML(f"<b>{prose(self.question)}</b>")

        def chosen(change: Mapping[str, str | None]) -> None:
            if change["new"] is not None and self.outcome is None:
                self.choose(change["new"])

        self._radio.observe(chosen, names="value")
        # The edge of the boxes in which runs answer.
        edge = widgets.Layout(border_left=f"4px solid {ORANGE}", padding="2px 8px", margin="8px 0 4px 0")
        whole = widgets.VBox([question, self._radio, self._status], layout=edge)
        self._whole = whole
        return widget_view(whole)


@dataclass
class Questions:
    """The questions of one kernel.

    Attributes:
        open: those that wait for a run. decided: by cell, the prediction that its last run was to decide.
        asked: the words of those whose deciding cell was run without a choice, and has asked for one.
    """

    open: list[Prediction] = field(default_factory=list)
    decided: dict[str, Prediction] = field(default_factory=dict)
    asked: set[tuple[str, ...]] = field(default_factory=set)


QUESTIONS = Questions()


def predict(
    question: str,
    answers: Mapping[str, str | Callable[[Outcome], bool]] | None = None,
    choice: str | int | None = None,
    **values: object,
) -> Prediction:
    """Ask for a prediction that the next run with `--predicted` (or `expect="predicted"`) decides.

    Args:
        question: what is going to happen? Without answers: the name of a question of the lessons, such as `00.skips`.
        answers: text of each answer -> what makes it right: an expectation (`ok`, `raises:0`, `died:2`, `hang`, `slow`,
            ...) or a function of the `Outcome`, such as `lambda out: out.values[0] == 8`. They are shown in an order
            that is drawn from the words, the same for all learners.
        choice: commit right away, by text or number; otherwise click, or call `.choose(...)`.
        values: for the places in the words of a question of the lessons.

    Raises:
        UsageError: there is no such question or choice, or an expectation cannot be read.
    """
    try:
        prediction = _asked_by_name(question, values) if answers is None else _asked(question, answers)
    except (ExpectationError, QuestionError) as error:
        raise UsageError(str(error)) from None
    # One question is open at a time: asking again (re-running the cell) replaces it. What was chosen stays chosen: a
    # click on an answer makes its cell the active one, so the learner's next Shift+Enter asks the same question again.
    for before in QUESTIONS.open:
        if choice is None and before.words == prediction.words:
            choice = before.choice
    QUESTIONS.open = [prediction]
    prediction.show()
    if choice is not None:
        prediction.choose(choice)
    return prediction


def _asked(question: str, answers: Mapping[str, str | Callable[[Outcome], bool]]) -> Prediction:
    if len(answers) < 2:
        raise UsageError("A prediction needs at least two answers to choose from.")
    order = in_drawn_order(question, [Option(text, "") for text in answers])
    deciders = {option.says: answers[option.says] for option in order}
    return Prediction(
        question,
        {text: Expectation.parse(when) if isinstance(when, str) else when for text, when in deciders.items()},
    )


def _asked_by_name(name: str, values: Mapping[str, object]) -> Prediction:
    found = question_named(name, values)
    deciders = {option.says: decider(option.when, values) for option in found.options}
    replies = {option.says: option.reply for option in found.options}
    return Prediction(found.asks, deciders, replies, found.name)


def reveal_predictions(outcome: Outcome) -> None:
    """Let the outcome decide every open prediction."""
    for prediction in QUESTIONS.open:
        prediction.reveal(outcome)


@dataclass(frozen=True)
class Foreseen:
    """The expectation of `--predicted`: one of the prediction's answers is right.

    Attributes:
        again: the cell has decided the question before. Then a learner who changes it and tries something else may also
            have every rank finish, and no open question is decided by it.
    """

    prediction: Prediction
    again: bool

    def met_by(self, outcome: Outcome) -> bool:
        """Check whether the run ended as one of the answers says."""
        return self.prediction.foresees(outcome) or (self.again and outcome.ok)

    def decide(self, outcome: Outcome) -> None:
        """Reveal the prediction, the first time."""
        if not self.again:
            self.prediction.reveal(outcome)

    def __str__(self) -> str:
        return "what one of the answers says"


def foreseen(text: str, cell_id: str | None = None) -> Foreseen:
    """Return the endings that a run deciding a prediction may have.

    Args:
        text: what is run.
        cell_id: the id of the deciding cell. Where it is not known, the text stands for the cell, and an open question
            is always this one's: two cells may have the same text.

    Raises:
        UsageError: no question is open, and this cell has not decided one before; or nothing was chosen, for the first
            time.
    """
    opened = QUESTIONS.open[-1] if QUESTIONS.open else None
    cell = cell_id or text
    before = QUESTIONS.decided.get(cell)
    if opened is not None and (cell_id is None or before is None or before.question == opened.question):
        _ask_once(opened)
        QUESTIONS.decided[cell] = opened
        return Foreseen(opened, again=False)
    if before is not None:
        return Foreseen(before, again=True)
    raise UsageError(foresight.NO_QUESTION)


foresight.register(foreseen)


def _ask_once(prediction: Prediction) -> None:
    """Refuse the first run without a choice, where the learner has seen the question and can choose."""
    if prediction.choice is not None or prediction.words in QUESTIONS.asked or not is_attended():
        return
    if not sent_before(prediction.shown):  # all cells at once, as after a restart
        QUESTIONS.asked.add(prediction.words)
        raise UsageError(
            "You have not predicted yet: choose an answer above, or run this cell again without a prediction."
        )
