"""Half a day with a class: `python -m benchmarks.half_day`, the plan of docs/instructor.md with simulated learners.

Some learners are real IPython kernels that run the lessons' cells, vote in them and have their answers graded in them;
the others are processes with the client library alone, which say what real gradings have said of the same answers. The
instructor is a browser. Some lose the network, some are killed, the board is killed in the first break. In the end,
every event that was made has to be on the board, once and in its order, and the page has to show it.

What a learner chooses and answers is drawn from --seed. Times are not.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gangs import ROOT, Failed
from benchmarks.processes import nothing_left_over
from course_lib.board.events import question_id
from course_lib.board.sender import Sender
from course_lib.board.store import Store
from course_lib.tasks import find_task
from tests.support.boards import RunningBoard, Wire, running_board
from tests.support.ranks_and_kernels import Kernel
from tools.asked import Question, find_questions
from tools.sections import Lesson, read_lessons

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLAN = "Half a day"
#: What who is ahead does beside the plan: a task of the lesson that the room is in.
AHEAD = {"06": "alternation.gan_step", "04": "buckets.bucket_list", "13": "debugging.epoch"}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: A cell on a machine where other kernels run the same one; the board, after the network was away.
_CELL, _CATCH_UP = 180.0, 60.0


@dataclass(frozen=True)
class Said:
    """An event as a learner sends it to the board, without its time and its random identifier."""

    kind: str
    about: str
    said: str
    misconceptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An answer to a task, and what the grader has said of it in this run."""

    task: str
    source: str
    said: Said


class Learner:
    """Somebody in the room. `made`: what they have said to the board, in its order."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.made: list[Said] = []
        folder.mkdir(parents=True)

    def join(self, board: str, code: str) -> None:
        """Join, or ask to."""

    def open_lesson(self, lesson: Lesson) -> None:
        """Open the notebook."""

    def vote(self, question: Question, choice: int) -> None:
        """Read up to the question, and choose; on return the vote is on the learner's disk."""
        self.made.append(Said("vote", question_id(question.asks, question.answers), str(choice)))

    def answer(self, answer: Answer) -> None:
        """Have an answer judged; on return the verdict is on the learner's disk."""
        self.made.append(answer.said)

    def read_on(self) -> None:
        """Run the cells up to the next question."""

    def waiting(self) -> int:
        """Count what is not confirmed yet."""
        return 0

    def kill(self) -> None:
        """Kill the learner's process with SIGKILL."""

    def come_back(self) -> None:
        """Start again, in the same folder."""

    def close(self) -> None:
        """Go home."""


class LibraryLearner(Learner):
    """The client library in a process of its own, which acts on the lines of its standard input."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.come_back()

    def come_back(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.half_day", "--be-a-learner", str(self.folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def join(self, board: str, code: str) -> None:
        self._ask("join", board, code, self.name)

    def vote(self, question: Question, choice: int) -> None:
        super().vote(question, choice)
        self._tell(self.made[-1])

    def answer(self, answer: Answer) -> None:
        super().answer(answer)
        self._tell(self.made[-1])

    def waiting(self) -> int:
        return int(self._ask("waiting"))

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        self._process.communicate()  # it ends with its input

    def _tell(self, said: Said) -> None:
        self._ask("tell", said.kind, said.about, said.said, *said.misconceptions)

    def _ask(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        if not (answer := self._process.stdout.readline()):
            raise Failed(f"{self.name} has ended at {words}")
        return answer.strip()


def be_a_learner(folder: Path) -> None:
    """Serve the other end of `LibraryLearner`."""
    from course_lib.board.client import address_of

    sender = Sender(folder)
    for line in sys.stdin:
        match json.loads(line):
            case ["join", address, code, name]:
                print(sender.join(address_of(address), code, name).state, flush=True)
            case ["tell", kind, about, said, *misconceptions]:
                sender.tell(kind, about, said, tuple(misconceptions))
                print(sender.flush(seconds=_CATCH_UP), flush=True)
            case ["waiting"]:
                print(sender.outbox.count(), flush=True)
    sender.close()


class KernelLearner(Learner):
    """A real kernel in a copy of the course: cells are run, predictions chosen and answers graded in it."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        for each in ("notebooks", "exercises", "docs"):
            shutil.copytree(ROOT / each, folder / "course" / each, ignore=shutil.ignore_patterns("sources"))
        self.cells = self.judged = 0
        #: Where the grader has said of an answer what it had not said before.
        self.otherwise: list[str] = []
        self._lesson: Lesson | None = None
        self._next = 0
        self.come_back()

    def come_back(self) -> None:
        """Start a new kernel; in an open lesson, run all cells above again, as the guide says."""
        self._kernel = Kernel(
            self.folder / "course/notebooks",
            DDP_COURSE_HOME=str(self.folder),
            DDP_COURSE_ZYGOTE="",
            DDP_COURSE_LIVE="0",  # no cell asks for a prediction: those above are run again without one
        )
        until, self._next = self._next, 0
        while self._next < until:
            self._step(again=True)

    def join(self, board: str, code: str) -> None:
        said = self._run(f"%board {board} {code} {self.name}")
        if self.name not in said and "has not answered" not in said:
            raise Failed(said)

    def open_lesson(self, lesson: Lesson) -> None:
        self._kernel.close()
        self._lesson, self._next = lesson, 0
        self.come_back()  # it has joined: nothing has to be typed

    def vote(self, question: Question, choice: int) -> None:
        while self._cells[self._next].id != question.asked_in:
            self._step()
        self._step()
        super().vote(question, choice)
        self._run(
            f"from course_lib.notebook.predict import QUESTIONS as _q; _q.open[-1].choose({choice + 1})"
        )
        self._on_disk()

    def answer(self, answer: Answer) -> None:
        shown = self._run(f"%%task {answer.task}\n{answer.source}")
        found = re.search(rf"^{answer.task}: (\w+)", shown, re.MULTILINE)
        ids = (each.id for each in find_task(answer.task).misconceptions if each.sentence in shown)
        said = Said("verdict", answer.task, found[1] if found else shown[:300], tuple(sorted(ids)))
        self.made.append(said)
        self.judged += 1
        if said != answer.said:
            self.otherwise.append(f"{self.name}: {said}, and before it was {answer.said}")
        self._on_disk()

    def read_on(self) -> None:
        asked = {each.asked_in for each in find_questions(self._lesson)} if self._lesson else set()
        while self._next < len(self._cells) and self._cells[self._next].id not in asked:
            self._step()

    def waiting(self) -> int:
        said = self._run("%board")
        found = re.search(r"(\d+) messages? wait", said)
        return int(found[1]) if found else 0

    def kill(self) -> None:
        self._kernel.kill()
        self._kernel.close()

    def close(self) -> None:
        self._kernel.close()

    @property
    def _cells(self) -> list[Cell]:
        """Those of the core; where a section is left out, its cells are run all the same."""
        parts = (
            [part for section in self._lesson.sections if section.core for part in section.parts]
            if self._lesson
            else []
        )
        return [Cell(part.cell["id"], part.text) for part in parts if part.cell is not None]

    def _step(self, *, again: bool = False) -> None:
        cell = self._cells[self._next]
        self._run(cell.source)
        self._next += 1
        self.cells += not again

    def _on_disk(self) -> None:
        self._run(f"from course_lib.notebook import board as _b; assert _b._link.sender().flush({_CATCH_UP})")

    def _run(self, source: str) -> str:
        shown = self._kernel.run(source, timeout=_CELL)
        if shown.status != "ok":
            raise Failed(f"{self.name}: {source[:80]!r}: {shown.text[-1500:]}")
        return shown.text


@dataclass(frozen=True)
class Cell:
    """A code cell of a lesson."""

    id: str
    source: str


@dataclass
class Step:
    """A row of the table."""

    what: str
    votes: int = 0
    verdicts: int = 0
    seconds: float = 0.0
    #: From the last vote to the page that has counted all; from pressing *Reveal* to the counts. One for each question.
    counted: list[float] = field(default_factory=list)
    revealed: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self) -> str:
        counted = f"{max(self.counted):.1f} s" if self.counted else ""
        revealed = f"{max(self.revealed):.1f} s" if self.revealed else ""
        cells = (
            self.what,
            str(self.votes or ""),
            str(self.verdicts or ""),
            f"{self.seconds:.0f} s",
            counted,
            revealed,
        )
        return f"| {' | '.join((*cells, '; '.join(self.notes)))} |"


class HalfDay:
    """The room and what happens in it, in the order of the plan."""

    def __init__(self, folder: Path, learners: int, kernels: int, seed: int, page: Page) -> None:
        self.random = random.Random(seed)
        self.folder, self.page = folder, page
        self.lessons = {lesson.number: lesson for lesson in read_lessons(ROOT)}
        self.kernels, self.count = kernels, learners
        self.steps: list[Step] = []
        self.room: list[Learner] = []
        self.answers: dict[str, list[Answer]] = {}
        self.problems: list[str] = []
        self._stack = contextlib.ExitStack()
        self._pool = ThreadPoolExecutor(learners)

    # What the learners are.

    def come_in(self, board: RunningBoard) -> None:
        """Let everybody join; those in the back row over their own network, the last one while it is down."""
        names = [f"Learner {number:02}" for number in range(1, self.count + 1)]
        names[1] = "<script>alert(1)</script>"
        wire = self._stack.enter_context(contextlib.closing(Wire(board.address)))
        # The last kernel and every fifth of the others sit in the back row.
        back = {self.kernels - 1, *range(self.count - 1, self.kernels, -5)}

        def enter(number: int) -> Learner:
            kind = KernelLearner if number < self.kernels else LibraryLearner
            learner = kind(names[number], self.folder / f"learner{number:02}")
            if number == self.count - 1:
                wire.cut()
            learner.join(str(wire.address if number in back else board.address), board.code)
            return learner

        self.room = list(self._pool.map(enter, range(self.count - 1)))
        self.room.append(enter(self.count - 1))
        self.wire, self.back = wire, [self.room[number] for number in sorted(back)]

    def go_home(self) -> None:
        for learner in self.room:
            learner.close()
        self._pool.shutdown()
        self._stack.close()

    def all(self, does: Callable[[Learner], object], who: Iterable[Learner] | None = None) -> None:
        """Have them do it at the same time."""
        list(self._pool.map(does, self.room if who is None else who))

    # What happens.

    def teach(self, number: str, without: Sequence[str]) -> Step:
        """Teach a lesson: ask the questions of the sections that are not left out."""
        lesson = self.lessons[number]
        taken = {
            section.title
            for chapter in lesson.chapters
            if chapter[0].core and chapter[0].title not in without
            for section in chapter
        }
        questions = [each for each in find_questions(lesson) if each.section in taken]
        step = self._begin(f"{lesson.number} · {lesson.title}: {len(questions)} predictions")
        self.all(lambda learner: learner.open_lesson(lesson))
        for place, question in enumerate(questions):
            self._disturb(number, place, len(questions), step)
            self._ask(question, step)
        self.all(methodcaller("read_on"))
        if task := AHEAD.get(number):
            self._try(task, self.room[self.kernels :: 3], step)
        return self._end(step)

    def work(self, task: str) -> Step:
        """Give everybody a task."""
        step = self._begin(f"Task: {task}")
        self._try(task, self.room, step)
        return self._end(step)

    def pause(self, board: RunningBoard) -> tuple[Step, RunningBoard]:
        """Take the first break: the board is killed while some still try, and started again."""
        step = self._begin("Break")
        board.kill()
        self._try("first_ranks.train", self.room[self.kernels :: 4], step)
        board = self._stack.enter_context(running_board(board.file))
        step.notes.append("board killed; answers judged; board started again on its file")
        return self._end(step), board

    def _disturb(self, lesson: str, place: int, count: int, step: Step) -> None:
        """Break the network, and kill learners, at the same places in every run."""
        match lesson, place:
            case "00", 2:
                self.wire.unresponsive()
                step.notes.append(f"{len(self.back)} learners: requests arrive, answers do not")
            case "06", 0:
                self.wire.cut()
                step.notes.append(f"{len(self.back)} learners: no network")
            case "06", 1:
                gone = self.back[:3]
                for each in gone:
                    each.kill()
                self.all(methodcaller("come_back"), gone)
                step.notes.append(f"{len(gone)} of them killed with votes on disk, and back")
            case "04", 0:
                self.wire.mend()
                step.notes.append("network back")
        if lesson == "00" and place == count - 1:
            self.wire.mend()

    def _ask(self, question: Question, step: Step) -> None:
        """Let all vote and the page count, then reveal the answer."""
        weights = [3 if answer == question.came_true else 2 for answer in question.answers]
        choices = self.random.choices(range(len(question.answers)), weights, k=len(self.room))
        chosen = dict(zip(self.room, choices, strict=True))
        self.all(lambda learner: learner.vote(question, chosen[learner]))
        step.votes += len(self.room)
        sure = [each for each in self.room if self.wire.whole or each not in self.back]
        began = time.monotonic()
        self._wait(lambda: self._voted(question) >= len(sure), f"votes on {question.asks!r}")
        step.counted.append(time.monotonic() - began)
        if self.page.locator(".votes").count():
            self.problems.append(f"{question.asks}: the votes are there before they are revealed")
        began = time.monotonic()
        self.page.get_by_role("button", name="Reveal the votes").click()
        self._wait(lambda: self.page.locator(".votes").count() == len(question.answers), "the revealed votes")
        step.revealed.append(time.monotonic() - began)
        shown = self._counts()
        at_least, at_most = (Counter(chosen[each] for each in who) for who in (sure, self.room))
        if not all(at_least[each] <= shown[each] <= at_most[each] for each in range(len(shown))):
            self.problems.append(f"{question.asks}: {shown} instead of {at_most}")
        self.all(methodcaller("read_on"))

    def _try(self, task: str, who: Sequence[Learner], step: Step) -> None:
        """Let each give some wrong answers and then, for most of them, a right one."""
        *wrong, right = self.answers[task]
        draws = {}
        for each in who:
            tries = self.random.choices(wrong, k=self.random.choice((0, 1, 1, 2, 4)))
            # One in ten does not get there.
            draws[each] = [*tries, right] if self.random.random() > 0.1 else tries or wrong[:1]
            if isinstance(each, KernelLearner):
                draws[each] = [wrong[0], right]

        def work(learner: Learner) -> None:
            for answer in draws[learner]:
                learner.answer(answer)

        self.all(work, who)
        step.verdicts += sum(map(len, draws.values()))

    # What the instructor sees.

    def open_page(self, board: RunningBoard) -> None:
        """Open the board's page; without the blank one between, the same address with another hash is the same page."""
        self.page.goto("about:blank")
        self.page.goto(board.page)
        self._wait(lambda: self.page.locator("#present").inner_text() != "", "the page")

    def _voted(self, question: Question) -> int:
        if self.page.locator("#vote .question").all_inner_texts() != [question.asks]:
            return -1
        return int(self.page.locator(".voted").inner_text().split()[0])

    def _counts(self) -> list[int]:
        return [int(each) for each in self.page.locator(".votes").all_inner_texts()]

    def _shows(self, wanted: list[int]) -> bool:
        shown = self._counts()
        return shown[: len(wanted)] == wanted and not any(shown[len(wanted) :])

    def _wait(self, found: Callable[[], object], what: str, seconds: float = _CATCH_UP) -> None:
        until = time.monotonic() + seconds
        while not found():
            if time.monotonic() > until:
                raise Failed(f"did not come within {seconds:.0f} s: {what}")
            self.page.wait_for_timeout(20)

    # What is left in the end.

    def caught_up(self) -> float:
        """Wait until nothing waits on any learner's disk; returns the seconds."""
        began = time.monotonic()
        self._wait(
            lambda: not any(self._pool.map(methodcaller("waiting"), self.room)), "all events to be confirmed"
        )
        return time.monotonic() - began

    def compare(self, file: Path) -> str:
        """Check that every event is on the board, once and in order."""
        store = Store(file)
        numbers = {member.name: member.learner for member in store.members()}
        kept: dict[int, list[tuple[int, Said]]] = {}
        ids: Counter[str] = Counter()
        for member, event in store.events():
            ids[event.id] += 1
            said = Said(event.kind, event.about, event.said, tuple(sorted(event.misconceptions)))
            kept.setdefault(member, []).append((event.number, said))
        store.close()
        made = sum(len(each.made) for each in self.room)
        lost = twice = 0
        for learner in self.room:
            there = [
                said for _, said in sorted(kept.get(numbers[learner.name], []), key=lambda each: each[0])
            ]
            lost += (Counter(learner.made) - Counter(there)).total()
            twice += (Counter(there) - Counter(learner.made)).total()
            for number, (mine, kept_) in enumerate(itertools.zip_longest(learner.made, there), start=1):
                if mine != kept_:
                    self.problems.append(f"{learner.name}, event {number}: {mine} was made, {kept_} is kept")
        if lost or twice or max(ids.values()) > 1:
            self.problems.append(f"lost {lost}, more than was made {twice}")
        return f"events made {made}, kept {ids.total()}, lost {lost}, kept twice {twice}"

    def compare_page(self) -> str:
        """Check that the page, opened anew, shows what the learners did."""
        self.page.locator("#lesson").select_option(label="all lessons")
        votes: dict[str, Counter[int]] = {}
        passed: dict[str, set[str]] = {}
        tried: dict[str, set[str]] = {}
        for learner in self.room:
            last = {said.about: int(said.said) for said in learner.made if said.kind == "vote"}
            for about, choice in last.items():
                votes.setdefault(about, Counter())[choice] += 1
            for said in learner.made:
                if said.kind == "verdict":
                    tried.setdefault(said.about, set()).add(learner.name)
                    if said.said == "pass":
                        passed.setdefault(said.about, set()).add(learner.name)
        for about, counter in votes.items():
            self.page.locator("#question").select_option(about)
            wanted = [counter[number] for number in range(max(counter) + 1)]
            self._wait(partial(self._shows, wanted), f"the votes {wanted} on {about}")
        for task, names in tried.items():
            numbers = self.page.locator(f"[data-task='{task}'] .n").all_inner_texts()
            shown = [int(each.split()[1]) for each in numbers]
            right = len(passed.get(task, ()))
            if (shown[0], sum(shown)) != (right, len(names)):
                self.problems.append(
                    f"{task}: the page shows {numbers}, and {right} of {len(names)} have passed"
                )
        return f"the page shows the votes on {len(votes)} questions and the state of {len(tried)} tasks"

    def _begin(self, what: str) -> Step:
        self._began = time.monotonic()
        return Step(what)

    def _end(self, step: Step) -> Step:
        step.seconds = time.monotonic() - self._began
        self.steps.append(step)
        print(step.row(), flush=True)
        return step


def graded(task: str) -> list[Answer]:
    """Judge two wrong answers and a right one of the catalogue on real ranks."""
    from course_lib.grading.grader import grade
    from course_lib.grading.known_answers import catalogue

    mine = [one for one in catalogue(ROOT / "course_lib/lessons") if one.task == task]
    known = [one for one in mine if one.misconceptions]
    answers = []
    for one in (*known[:2], [one for one in mine if one.right][-1]):
        verdict = grade(task, one.source)
        ids = tuple(sorted(each.id for each in verdict.misconceptions))
        answers.append(Answer(task, one.source, Said("verdict", task, str(verdict.kind), ids)))
    return answers


@contextlib.contextmanager
def browser_page() -> Iterator[Page]:
    """Open a page in a headless browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise Failed(f"needs a browser (looked for {', '.join(CHROMIUM)})")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium.new_page(viewport={"width": 1920, "height": 1080})
        chromium.close()


def hold(learners: int, kernels: int, seed: int) -> list[str]:
    """Hold the class; prints what was seen and returns what was wrong."""
    table = tomllib.loads((ROOT / "tools/plans.toml").read_text(encoding="utf-8"))
    plan = next(plan for plan in table["plan"] if plan["title"] == PLAN)
    with (
        tempfile.TemporaryDirectory(prefix="ddp-half-", ignore_cleanup_errors=True) as folder,
        browser_page() as page,
    ):
        class_ = HalfDay(Path(folder), learners, kernels, seed, page)
        tasks = {str(step["task"]) for step in plan["steps"] if "task" in step} | set(AHEAD.values())
        began = time.monotonic()
        class_.answers = {task: graded(task) for task in sorted(tasks)}
        print(f"{3 * len(tasks)} answers graded on real ranks: {time.monotonic() - began:.0f} s")
        file = Path(folder) / "board.sqlite"
        with contextlib.ExitStack() as stack:
            board = stack.enter_context(running_board(file))
            stack.callback(class_.go_home)
            class_.open_page(board)
            paused = False
            for row in plan["steps"]:
                if row.get("what", "").startswith("Welcome"):
                    step = class_._begin("Welcome: joining")
                    class_.come_in(board)
                    class_._wait(
                        lambda: page.locator("#present").inner_text().startswith(f"{learners - 1} "), "all"
                    )
                    class_._end(step)
                    class_.wire.mend()
                elif "lesson" in row:
                    class_.teach(row["lesson"], row.get("without", ()))
                elif "task" in row:
                    class_.work(row["task"])
                elif row.get("what") == "Break" and not paused:
                    _, board = class_.pause(board)
                    paused = True
            print(f"nothing waits any more after {class_.caught_up():.1f} s")
            class_.open_page(board)
            print(class_.compare_page())
            print(class_.compare(file))
            real = [each for each in class_.room if isinstance(each, KernelLearner)]
            cells, judged = sum(each.cells for each in real), sum(each.judged for each in real)
            print(f"{kernels} real kernels have run {cells} cells of lessons and judged {judged} answers")
            print(*(line for each in real for line in each.otherwise), sep="\n", end="")
        return class_.problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--learners", type=int, default=30)
    parser.add_argument("--kernels", type=int, default=4, help="how many of them are real kernels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--be-a-learner", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_a_learner:
        be_a_learner(options.be_a_learner)
        return 0
    from course_lib.grading import HARNESS
    from realranks.ranks.server.preload import preload_also
    from realranks.ranks.server.zygote import start_zygote

    preload_also(HARNESS)
    start_zygote()
    began = time.monotonic()
    with nothing_left_over():
        problems = hold(options.learners, options.kernels, options.seed)
    print(*problems or ["Nothing was lost, and nothing counted twice."], sep="\n")
    print(f"{time.monotonic() - began:.0f} s in all")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
