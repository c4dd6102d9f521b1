"""The measurements.

The contenders take turns (A B C A B C ...), so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks import grading, learners, processes, watched, workloads
from benchmarks.gangs import CONTENDERS, CourseRanks, EngineRanks, Failed, ScriptRanks, installed, make
from benchmarks.hosts import HostRanks, played
from benchmarks.notebooks import IN_NOTEBOOKS, Kernel, cells_of
from benchmarks.results import COURSE, HOSTS, NO_ZYGOTE, UNWATCHED, Row, Sample

Say = Callable[[str], None]
#: What costs one repetition and not the run: Failed and the course's own errors, timeouts and lost connections.
_PROBLEMS = (RuntimeError, OSError)

ABOUT = {
    "gang": "new gang, first DDP step, memory",
    "cell": "cell round trip",
    "history": "cell round trip after many collectives",
    "deadlock": "from deadlock to verdict",
    "first": "first cell in a fresh kernel",
    "class": "a class on one machine: first cell, memory per learner",
    "stop": "from stop button to usable gang",
    "grade": "grading the solutions of all tasks",
    "watched": "what it costs to be watched",
    "hosts": "ranks on two hosts beside ranks on this machine; a thousand ranks",
}


@dataclass(frozen=True)
class Plan:
    """The amount to measure.

    Attributes:
        repeat: repetitions. cells: round trips a repetition. sizes: numbers of ranks for round trips.
        reading: seconds a learner reads before the first cell. bound: how long to wait for what may never come.
        torchrun_tasks: how many tasks are graded with one `torchrun` each, which takes half a minute a task.
        graded_tasks: how many tasks are graded at all (None: all). steps: of a watched training loop, a repetition.
        step_seconds: about how long such a step takes.
        learners: how many of them share the machine.
        history: collectives in earlier cells, before cells are measured that have them behind them.
        contenders: who takes part. many: numbers of ranks that hosts play.
    """

    repeat: int = 5
    cells: int = 20
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    reading: float = 10.0
    bound: float = 10.0
    torchrun_tasks: int = 4
    graded_tasks: int | None = None
    steps: int = watched.STEPS
    step_seconds: float = watched.STEP_SECONDS
    learners: int = 6
    history: int = 2000
    contenders: tuple[str, ...] = CONTENDERS
    many: tuple[int, ...] = (256, 1024)

    def takes_part(self, names: tuple[str, ...] = CONTENDERS) -> list[str]:
        """List those of these contenders that take part and whose package is installed."""
        return [name for name in installed(names) if name in self.contenders]


QUICK = Plan(repeat=1, cells=10, sizes=(2, 4), bound=5.0, torchrun_tasks=1)


class _Book:
    """Values as they come in, by row and contender."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._remarks: dict[tuple[str, str], str] = {}
        self._failures: dict[tuple[str, str], str] = {}
        self._at_least: set[tuple[str, str]] = set()

    def repetitions(self, count: int) -> Iterator[int]:
        """Count repetitions, saying so."""
        for number in range(count):
            self._say(f"  repetition {number + 1} of {count}")
            yield number

    def write(self, row: str, who: str, value: float, remark: str = "", at_least: bool = False) -> None:
        """Note one value."""
        self._values[row][who].append(value)
        if remark:
            self._remarks[row, who] = remark
        if at_least:
            self._at_least.add((row, who))

    def failed(self, row: str, who: str, error: Exception) -> None:
        """Note that a repetition gave no value: said at once, and in the table."""
        self._failures[row, who] = "not every repetition worked"
        self._say(f"{row}, {who}: {error}")

    def _remark(self, key: str, who: str) -> str:
        said = (self._remarks.get((key, who)), self._failures.get((key, who)))
        return "; ".join(text for text in said if text)

    def row(self, key: str, title: str, unit: str) -> Row:
        """Build the row, contenders in their usual order."""
        samples = {
            who: Sample(tuple(self._values[key][who]), (key, who) in self._at_least, self._remark(key, who))
            for who in (*CONTENDERS, UNWATCHED, NO_ZYGOTE, HOSTS)
            if self._values[key][who] or (key, who) in self._failures
        }
        return Row(key, title, unit, samples)


def measure(plan: Plan, wanted: Sequence[str], progress: Say) -> list[Row]:
    """Measure what is wanted; rows without any value are left out."""
    measures = {
        "gang": _gang,
        "cell": _cell,
        "history": _history,
        "deadlock": _deadlock,
        "first": _first,
        "class": _class,
        "stop": _stop,
        "grade": _grade,
        "watched": _watched,
        "hosts": _hosts,
    }
    rows: list[Row] = []
    for name in ABOUT:
        if name in wanted:
            progress(f"{ABOUT[name]} ...")
            rows += measures[name](plan, _Book(progress))
    return [row for row in rows if row.samples]


def _gang(plan: Plan, book: _Book) -> list[Row]:
    for _ in book.repetitions(plan.repeat):
        for who in plan.takes_part():
            ranks = make(who, 4)
            try:
                book.write("start", who, ranks.start())
                before = time.perf_counter()
                ranks.run(workloads.DDP_STEP)
                book.write("ddp-step", who, time.perf_counter() - before)
                if processes.can_measure_memory():
                    book.write("memory", who, mean(processes.megabytes(pid) for pid in ranks.pids()))
                    book.write("memory-all", who, sum(processes.megabytes(pid) for pid in ranks.everybody()))
            except _PROBLEMS as error:
                book.failed("start", who, error)
            finally:
                ranks.stop()
    return [
        book.row("start", "New gang of 4, process group up", "s"),
        book.row("ddp-step", "First DDP training step in a new gang of 4", "s"),
        book.row("memory", "Memory a rank after that step (PSS)", "MB"),
        book.row("memory-all", "Memory of the 4 ranks and all that serves them (PSS)", "MB"),
    ]


def _cell(plan: Plan, book: _Book) -> list[Row]:
    rows = []
    for size in plan.sizes:
        row = f"round-trip-{size}"
        seated = {who: make(who, size) for who in plan.takes_part((COURSE, "ipyparallel"))}
        try:
            for who in seated:
                seated[who].start()
                for _ in range(3):  # the first ones import and allocate
                    seated[who].run(workloads.ROUND_TRIP)
            for _ in book.repetitions(plan.repeat):
                for _ in range(plan.cells):
                    for who, ranks in seated.items():
                        book.write(row, who, _one_cell(ranks, size))
                if size == 4:
                    _cells_of_scripts(row, plan, book)
        except _PROBLEMS as error:
            book.failed(row, who, error)
        finally:
            for ranks in seated.values():
                ranks.stop()
        rows.append(book.row(row, f"Cell on {size} ranks: all_reduce and print", "ms"))
    return rows


def _one_cell(ranks: CourseRanks | ScriptRanks | EngineRanks, size: int) -> float:
    assert not isinstance(ranks, ScriptRanks), "a script has no cells"
    before = time.perf_counter()
    ranks.run(workloads.ROUND_TRIP)
    milliseconds = (time.perf_counter() - before) * 1000
    printed = ranks.printed()
    if [text.strip() for text in printed] != [str(float(size))] * size:
        raise Failed(f"a cell printed {printed}")
    return milliseconds


def _history(plan: Plan, book: _Book) -> list[Row]:
    """Measure what earlier cells cost an unrelated one: the recorder's list is full by then."""
    for _ in book.repetitions(plan.repeat):
        for who in plan.takes_part((COURSE, "ipyparallel")):
            ranks = make(who, 4)
            try:
                ranks.start()
                before = _median_cell(ranks, plan.cells)
                ranks.run(workloads.many_collectives(plan.history))
                book.write("history", who, max(0.0, _median_cell(ranks, plan.cells) - before))
            except _PROBLEMS as error:
                book.failed("history", who, error)
            finally:
                ranks.stop()
    return [book.row("history", f"What {plan.history:,} collectives in earlier cells add to a cell", "ms")]


def _median_cell(ranks: CourseRanks | ScriptRanks | EngineRanks, cells: int, size: int = 4) -> float:
    for _ in range(3):  # the first ones import and allocate
        ranks.run(workloads.ROUND_TRIP)
    return median(_one_cell(ranks, size) for _ in range(cells))


def _cells_of_scripts(row: str, plan: Plan, book: _Book) -> None:
    """Measure launchers of scripts, which start anew for each cell: they keep nothing between runs."""
    for who in plan.takes_part(("spawn", "notebook_launcher", "torchrun")):
        ranks = make(who, 4)
        try:
            seconds = ranks.start()
            before = time.perf_counter()
            ranks.run(workloads.ROUND_TRIP)
            seconds += time.perf_counter() - before
            book.write(row, who, seconds * 1000, "starts anew for each cell")
        except _PROBLEMS as error:
            book.failed(row, who, error)
        finally:
            ranks.stop()


def _deadlock(plan: Plan, book: _Book) -> list[Row]:
    for repetition in book.repetitions(plan.repeat):
        source = workloads.deadlock(0.5 * repetition / plan.repeat)
        for who in plan.takes_part((COURSE, "spawn", "notebook_launcher", "torchrun", "ipyparallel")):
            if who != COURSE and repetition:
                continue  # one look at somebody who says nothing is enough
            ranks = make(who, 4)
            try:
                ranks.start()
                if isinstance(ranks, CourseRanks):
                    ranks.run(source)
                    ended = time.time()
                    book.write("deadlock", who, ended - max(ranks.entered()), ranks.verdict())
                else:
                    ended_by_itself = ranks.run(source, plan.bound)
                    if ended_by_itself:
                        raise Failed("the deadlock ended by itself")
                    remark = "says nothing; waits for the group's timeout (gloo: 30 min); killed"
                    book.write("deadlock", who, plan.bound, remark, at_least=True)
            except _PROBLEMS as error:
                book.failed("deadlock", who, error)
            finally:
                ranks.stop()
    return [book.row("deadlock", "From a deadlock (rank 2 skips an all_reduce) to the verdict", "s")]


def _first(plan: Plan, book: _Book) -> list[Row]:
    for reading, row, repeat in (
        (0.0, "first", plan.repeat),
        (plan.reading, "first-warm", min(plan.repeat, 3)),
    ):
        for _ in book.repetitions(repeat):
            for who in plan.takes_part(IN_NOTEBOOKS):
                try:
                    with Kernel() as kernel:
                        cells = cells_of(who, kernel.folder)
                        before = time.perf_counter()
                        kernel.run(cells.imports)
                        if reading:
                            time.sleep(reading)
                            before = time.perf_counter()
                        kernel.run(cells.first)
                        book.write(row, who, time.perf_counter() - before)
                except _PROBLEMS as error:
                    book.failed(row, who, error)
    return [
        book.row("first", "First cell on 4 ranks in a fresh kernel, at once (imports included)", "s"),
        book.row("first-warm", f"... after {plan.reading:.0f} s of reading below the imports", "s"),
    ]


def _class(plan: Plan, book: _Book) -> list[Row]:
    for repetition in book.repetitions(plan.repeat):
        for who in (COURSE, NO_ZYGOTE):
            if who == NO_ZYGOTE and (repetition or plan.contenders == (COURSE,)):
                continue  # it takes a minute, and loads torch once for each of them
            try:
                seen = learners.measure_class(plan.learners, plan.reading, zygote=who == COURSE)
                book.write("class-first", who, seen.first_cell)
                if seen.memory is not None:
                    book.write(
                        "class-memory", who, seen.memory, f"the Jupyter server itself: {seen.server:.0f} MB"
                    )
            except _PROBLEMS as error:
                book.failed("class-first", who, error)
    title = f"{plan.learners} learners run their first cell on 4 ranks at once, after {plan.reading:.0f} s of reading"
    return [
        book.row("class-first", f"{title}: the slowest", "s"),
        book.row(
            "class-memory", "... memory per learner: kernel, ranks and all that serves them (PSS)", "MB"
        ),
    ]


def _stop(plan: Plan, book: _Book) -> list[Row]:
    for repetition in book.repetitions(plan.repeat):
        for who in plan.takes_part(IN_NOTEBOOKS):
            if who != COURSE and repetition >= 2:
                continue
            try:
                _press_stop(who, plan.bound, book)
            except _PROBLEMS as error:
                book.failed("stop", who, error)
    return [
        book.row("stop", "From the stop button (2 ranks in all_reduce, 2 in sleep) to the next answer", "s")
    ]


def _press_stop(who: str, bound: float, book: _Book) -> None:
    with Kernel() as kernel:
        cells = cells_of(who, kernel.folder)
        kernel.run(cells.imports)
        kernel.run(cells.first)
        stuck = kernel.send(cells.stuck)
        deadline = time.monotonic() + 60
        while not all((Path(kernel.folder) / str(rank)).exists() for rank in range(4)):
            if time.monotonic() > deadline:
                raise Failed("the ranks did not get stuck")
            time.sleep(0.02)
        time.sleep(0.5)  # from the mark to the wait
        pressed = time.perf_counter()
        kernel.press_stop()
        if kernel.reply(stuck, bound) is None:
            book.write("stop", who, bound, "the cell does not end; the kernel must be killed", at_least=True)
            return
        # Who starts anew is given the time a start takes; who kept its ranks has to answer with them.
        answer = kernel.reply(kernel.send(cells.afterwards), bound if cells.keeps_ranks else 60.0)
        seconds = time.perf_counter() - pressed
        if answer is None or not answer.ok:
            remark = "no usable group; the ranks must be restarted, state lost"
            book.write("stop", who, bound, remark, at_least=True)
        else:
            kept = "4.0 kept" in answer.text
            book.write("stop", who, seconds, "state kept" if kept else "state lost; starts anew")


def _grade(plan: Plan, book: _Book) -> list[Row]:
    solutions = dict(list(grading.solutions().items())[: plan.graded_tasks])
    for repetition in book.repetitions(plan.repeat):
        try:
            taken = mean(grading.seconds_by_grader(task, source) for task, source in solutions.items())
            book.write("grade", COURSE, taken)
        except _PROBLEMS as error:
            book.failed("grade", COURSE, error)
        if repetition or "torchrun" not in plan.contenders:
            continue  # the other takes half a minute a task, and hardly differs from time to time
        step = max(1, -(-len(solutions) // plan.torchrun_tasks))
        sample = dict(list(solutions.items())[::step])
        try:
            taken = mean(grading.seconds_by_torchrun(task, source) for task, source in sample.items())
            book.write("grade", "torchrun", taken, f"on {len(sample)} of {len(solutions)} tasks")
        except _PROBLEMS as error:
            book.failed("grade", "torchrun", error)
    return [book.row("grade", "A right answer graded on 1 to 4 ranks (mean over all tasks)", "s")]


def _watched(plan: Plan, book: _Book) -> list[Row]:
    try:
        pairs = watched.milliseconds(2 * plan.repeat, plan.steps, plan.step_seconds)
        for _, (with_doctor, without) in zip(book.repetitions(2 * plan.repeat), pairs, strict=True):
            book.write("watched", COURSE, with_doctor)
            book.write("watched", UNWATCHED, without, "the same steps, nobody watching")
    except _PROBLEMS as error:
        book.failed("watched", COURSE, error)
    return [book.row("watched", "A DDP training step on 4 ranks, watched by the doctor", "ms")]


def _hosts(plan: Plan, book: _Book) -> list[Row]:
    """Measure 16 ranks on this machine and on two hosts, then hosts that play hundreds of ranks."""
    rows = ("start", "cell", "verdict", "stop")
    for who, ranks in ((COURSE, CourseRanks(16)), (HOSTS, HostRanks(16))):
        try:
            for _ in book.repetitions(plan.repeat):
                book.write("hosts-start", who, ranks.start())
                book.write("hosts-cell", who, _median_cell(ranks, plan.cells, 16))
                ranks.run(workloads.deadlock(0.0))
                book.write("hosts-verdict", who, time.time() - max(ranks.entered()), ranks.verdict())
                before = time.perf_counter()
                ranks.stop()
                book.write("hosts-stop", who, time.perf_counter() - before)
        except _PROBLEMS as error:
            book.failed("hosts-start", who, error)
        finally:
            ranks.stop()
            if isinstance(ranks, HostRanks):
                ranks.close()
    for size in plan.many:
        many = played(size)
        try:
            book.write(f"many-start-{size}", COURSE, many.start(), "played by their hosts")
            for _ in range(plan.cells):
                before = time.perf_counter()
                many.run(workloads.ROUND_TRIP)
                book.write(f"many-cell-{size}", COURSE, 1000 * (time.perf_counter() - before))
        except _PROBLEMS as error:
            book.failed(f"many-start-{size}", COURSE, error)
        finally:
            many.close()
    what = {
        "start": ("New gang of 16, process group up", "s"),
        "cell": ("... cell: all_reduce and print", "ms"),
        "verdict": ("... from a deadlock to the verdict", "s"),
        "stop": ("... its end", "s"),
    }
    return [
        *(book.row(f"hosts-{row}", *what[row]) for row in rows),
        *(book.row(f"many-start-{size}", f"{size} ranks that hosts play: start", "s") for size in plan.many),
        *(book.row(f"many-cell-{size}", "... a cell, up to the text", "ms") for size in plan.many),
    ]
