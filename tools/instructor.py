"""The instructor's pages: the plans in docs/instructor.md, and docs/instructor-lessons.md, which git does not keep.

Both are made of the saved lessons with the replies to their questions, the tasks, and `plans.toml` (what is taught
when). What stands around the plans in docs/instructor.md is written
by hand, too, and stays. Minutes are computed, so a plan that no longer fits its day is a line of `check_instructor`.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.tasks.catalogue import all_tasks
from course_lib.tasks.task import Task
from tools.asked import Question, check_questions, find_questions
from tools.pages import write_page
from tools.plan import LESSONS as LESSONS_FOLDER
from tools.sections import Lesson, read_lesson, read_lessons
from tools.slides.cuts import paragraphs, shortened

_COURSE, _TWO_HOURS = Path(__file__).parents[1], "two_hours"
GUIDE = Path("docs/instructor.md")
LESSONS = Path("docs/instructor-lessons.md")
#: What a plan must leave for questions, in parts of its time; and how long a room can sit without a break.
LEAST_SLACK, LONGEST_SITTING = 0.03, 110
_BLOCK = re.compile(r"(<!-- plans -->\n).*?(<!-- end of plans -->)", re.DOTALL)

_HEAD = """\
# Lesson by lesson, for instructors

For each lesson: its sections with their minutes, its predictions with what to say to those who chose each answer, and
its tasks with the mistakes that the grader knows by name. [The instructor's guide](instructor.md) says how to use this
in a class; the speaker notes of `ddp-course slides` hold the same.

Minutes of sections are those of an attentive reader (`tools/minutes.py`), rounded. A lesson's are rounded up
to five; in a room, each prediction takes a minute more. Beside each answer stands what the notebook replies to those
who chose it, after the run. How many do is not known: no figures of real rooms have been collected. What *your* room
answered is on the class board (`ddp-course board`).

This page is written by `ddp-course notebooks` from the lessons, the tasks and the questions' replies.
Git ignores it.
"""


@dataclass(frozen=True)
class Step:
    """A row of a plan.

    Attributes:
        what: in Markdown. lesson: the number of the lesson that is taught; empty for all else.
        shows: the numbers of the lessons of which parts of two_hours.ipynb show cells.
        task: the name of the task that the room works on. pause: a break, or lunch.
    """

    what: str
    minutes: int
    lesson: str = ""
    shows: tuple[str, ...] = ()
    task: str = ""
    pause: bool = False
    slack: bool = False


@dataclass(frozen=True)
class Plan:
    """A day, or half of one.

    Attributes:
        start: in minutes after midnight. minutes: all there is.
        after: the title of the plan of the day before.
    """

    title: str
    start: int
    minutes: int
    steps: tuple[Step, ...]
    after: str = ""


def read_plans(lessons: Sequence[Lesson], tasks: Sequence[Task], text: str | None = None) -> list[Plan]:
    """Return the plans with the minutes of these lessons; `text` stands for the file in tests.

    Raises:
        LookupError: a plan names a lesson, a section or a task that there is not.
    """
    table = tomllib.loads(text or Path(__file__).with_name("plans.toml").read_text(encoding="utf-8"))
    by_number = {lesson.number: lesson for lesson in lessons}
    by_number[_TWO_HOURS] = read_lesson(_COURSE / f"notebooks/{_TWO_HOURS}.ipynb")
    by_name = {task.name: task for task in tasks}
    plans = []
    for row in table["plan"]:
        rest = row["minutes"] - sum(_minutes(step, by_number) for step in row["steps"])
        steps = tuple(_step(step, rest, by_number, by_name) for step in row["steps"])
        hours, minutes = row["start"].split(":")
        plans.append(
            Plan(row["title"], 60 * int(hours) + int(minutes), row["minutes"], steps, row.get("after", ""))
        )
    return plans


def check_plans(plans: Sequence[Plan], lessons: Sequence[Lesson], tasks: Sequence[Task]) -> Iterator[str]:
    """Yield a line for each plan that does not fit its day, has no breaks, or teaches lessons in a wrong order."""
    before = {lesson.number: lesson.before for lesson in lessons}
    of_task = {task.name: task.lesson[:2] for task in tasks}
    taught: dict[str, list[str]] = {}
    for plan in plans:
        known = list(taught.get(plan.after, ()))
        for problem in (*_wrong_times(plan), *_wrong_order(plan, known, before, of_task)):
            yield f"plans.toml, {plan.title}: {problem}"
        taught[plan.title] = known


def _wrong_times(plan: Plan) -> Iterator[str]:
    slack = sum(step.minutes for step in plan.steps if step.slack)
    if slack < LEAST_SLACK * plan.minutes:
        yield f"{slack} of {plan.minutes} minutes are left for questions"
    if sum(step.minutes for step in plan.steps) != plan.minutes:
        yield f"the steps do not add up to {plan.minutes} minutes"
    sitting = 0
    for step in plan.steps:
        if step.pause:
            sitting = 0
        elif not step.slack:
            sitting += step.minutes
        if sitting > LONGEST_SITTING:
            yield f"{sitting} minutes without a break at {step.what!r}"


def _wrong_order(
    plan: Plan, known: list[str], before: Mapping[str, Sequence[str]], of_task: Mapping[str, str]
) -> Iterator[str]:
    """Yield lessons and tasks that come too early; the plan's lessons are added to those that are known."""
    for step in plan.steps:
        if step.lesson:
            missing = [number for number in before[step.lesson] if number not in known]
            if missing:
                yield f"lesson {step.lesson} builds on {', '.join(missing)}"
            known.append(step.lesson)
        known += step.shows
        lesson = of_task.get(step.task, "")
        if lesson and lesson not in known and lesson != "18":
            yield f"the task {step.task} comes before its lesson"


def with_plans(guide: str, plans: Iterable[Plan]) -> str:
    """Return docs/instructor.md with the tables of these plans between its two marks."""
    tables = "\n".join(_table(plan) for plan in plans)
    return _BLOCK.sub(lambda found: f"{found[1]}\n{tables}\n{found[2]}", guide)


def lessons_page(lessons: Sequence[Lesson], tasks: Sequence[Task]) -> str:
    """Return the text of docs/instructor-lessons.md."""
    return _HEAD + "".join(
        _chapter(lesson, [task for task in tasks if task.lesson == lesson.name]) for lesson in lessons
    )


def write_instructor_pages(root: Path) -> None:
    """Write what is generated of both pages; a course without docs gets none."""
    if not (root / GUIDE).is_file():
        return
    lessons, tasks = read_lessons(root), all_tasks()
    guide = (root / GUIDE).read_text(encoding="utf-8")
    write_page(root / GUIDE, with_plans(guide, read_plans(lessons, tasks)))
    write_page(root / LESSONS, lessons_page(lessons, tasks))


def check_instructor(root: Path) -> list[str]:
    """Return one line for each thing wrong: a plan that does not fit, a question without a reply, an old page."""
    if not (root / GUIDE).is_file():
        return []
    lessons, tasks = read_lessons(root), all_tasks()
    questions = [question for lesson in lessons for question in find_questions(lesson)]
    try:
        plans = read_plans(lessons, tasks)
    except LookupError as error:
        return [f"plans.toml: {error.args[0]}"]
    problems = [*check_questions(questions), *check_plans(plans, lessons, tasks)]
    guide = (root / GUIDE).read_text(encoding="utf-8")
    if not _BLOCK.search(guide):
        problems.append(f"{GUIDE}: has lost the marks between which its plans are written")
    if with_plans(guide, plans) != guide:
        problems.append(f"{GUIDE}: its plans are not what the lessons give")
    return problems


def _minutes(row: dict[str, object], lessons: dict[str, Lesson]) -> int:
    if row.get("slack"):
        return 0
    if "lesson" in row:
        return lessons[str(row["lesson"])].room_minutes(_left_out(row))
    if "parts" in row:
        return lessons[_TWO_HOURS].parts_minutes(*_parts(row))
    minutes = row["minutes"]
    assert isinstance(minutes, int)
    return minutes


def _parts(row: dict[str, object]) -> list[int]:
    numbers = row["parts"]
    assert isinstance(numbers, list)
    return numbers


def _left_out(row: dict[str, object]) -> list[str]:
    titles = row.get("without", [])
    assert isinstance(titles, list)
    return titles


def _step(row: dict[str, object], rest: int, lessons: dict[str, Lesson], tasks: dict[str, Task]) -> Step:
    minutes = _minutes(row, lessons)
    if row.get("slack"):
        return Step("Questions, and what took longer", rest, slack=True)
    if "lesson" in row:
        lesson = lessons[str(row["lesson"])]
        link = f"[{lesson.number} · {lesson.title}](../notebooks/{lesson.name}.ipynb)"
        without = ", ".join(f"“{title}”" for title in _left_out(row))
        return Step(f"{link}{', without ' * bool(without)}{without}", minutes, lesson=lesson.number)
    if "parts" in row:
        first, last = _parts(row)
        taken = re.findall(
            r'from="(\d\d) two-hours-(\d)"', (_COURSE / LESSONS_FOLDER / "two_hours.py").read_text("utf-8")
        )
        shows = tuple(dict.fromkeys(number for number, part in taken if first <= int(part) <= last))
        link = f"[Two hours of DDP](../notebooks/two_hours.ipynb), parts {first} and {last}"
        return Step(link, minutes, shows=shows)
    if "task" in row:
        task = tasks[str(row["task"])]
        return Step(f"Task: {task.title} (`{task.name}`)", minutes, task=task.name)
    what = str(row["what"])
    return Step(what, minutes, pause=what in ("Break", "Lunch"))


def _table(plan: Plan) -> str:
    lines = [f"### {plan.title}", "", "| from | minutes | |", "| --- | --: | --- |"]
    clock = plan.start
    for step in plan.steps:
        lines.append(f"| {clock // 60:02}:{clock % 60:02} | {step.minutes} | {step.what} |")
        clock += step.minutes
    lines.append(f"| {clock // 60:02}:{clock % 60:02} | {plan.minutes} in all | |")
    return "\n".join([*lines, ""])


def _chapter(lesson: Lesson, tasks: Sequence[Task]) -> str:
    builds = f" Builds on {', '.join(lesson.before)}." if lesson.before else ""
    minutes = f"{lesson.core_minutes} minutes for a reader, {lesson.room_minutes()} in a room"
    slides = f"slides: `ddp-course slides {lesson.number}`"
    lines = [
        "",
        f"## {lesson.number} · {lesson.title}",
        "",
        f"Core: {minutes}.{builds} [Lesson](../notebooks/{lesson.name}.ipynb), {slides}.",
        "",
        "| section | about | |",
        "| --- | --: | --- |",
    ]
    for chapter in lesson.chapters:
        time = sum(section.minutes for section in chapter)
        title = "Beginning" if chapter[0].level == 1 else chapter[0].title
        about = f"{round(time)} min" if time >= 0.75 else "½ min"
        lines.append(
            f"| {title.replace('|', chr(92) + '|')} | {about} | {'' if chapter[0].core else 'Deeper'} |"
        )
    for number, question in enumerate(find_questions(lesson), start=1):
        lines += ["", *_prediction(number, question)]
    if tasks:
        lines += ["", f"### Lesson {lesson.number}: tasks, and where people get stuck"]
    for task in tasks:
        lines += ["", f"**{task.place}. {task.title}** (`{task.name}`)", ""]
        lines += [f"- {item.sentence} ({item.taught})" for item in task.misconceptions]
    return "\n".join([*lines, ""])


def _prediction(number: int, question: Question) -> Iterator[str]:
    yield f"**Prediction {number}: {_escape(question.asks)}** ({_escape(question.section)})"
    yield ""
    for letter, answer in zip("ABCDEFGH", question.answers, strict=False):
        came = " **The run does this.**" if answer == question.came_true else ""
        yield f"- {letter}. *{_escape(answer)}*.{came} {question.reply_to(answer)}".rstrip()
    if question.explanation:
        first = [shortened(each, 60).text for each in paragraphs(question.explanation)[:1]]
        yield ""
        yield _relink_for_docs("To say: " + " ".join(" ".join(text.split()) for text in first))


def _relink_for_docs(text: str) -> str:
    """Rewrite the links of a lesson's text for docs/."""
    return re.sub(r"\]\((?!https?:|#|\.\./)", "](../notebooks/", text)


def _escape(text: str) -> str:
    """Escape text that Markdown shall show as it is; code in it stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[])", r"\\\1", part) for part in parts)
