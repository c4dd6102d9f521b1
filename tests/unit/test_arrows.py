"""Imports run one way, from room to room and from file to file; late ones and modules named in strings count too."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.lesson_code import is_module

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "realranks", ROOT / "course_lib", ROOT / "tools")
#: The rooms, from below; what is on one floor with others may import none of them. Those of the engine are below all
#: rooms of the course, and so know none of them.
ENGINE = (
    {"draw", "own_code"},
    {"faults", "outcome", "own_files", "versions"},
    {"ranks"},
    {"watch"},
    {"doctor"},
    {"scripts"},
    {"cells"},
    {"cli", "pytest_ranks"},
)
COURSE = (
    {"data", "failing_memory", "learner"},
    {"syllabus"},
    {"questions"},
    {"tasks"},
    {"board", "grading"},
    {"lab", "notebook"},
    {"lessons"},
    {"cli"},
    {"tools"},
)
#: What the course offers of the engine by names of its own.
ALIASES = {"draw", "faults", "scripts", "watch"}
FLOORS = [{f"realranks.{room}" for room in rooms} for rooms in ENGINE]
FLOORS += [{f"course_lib.{room}" for room in rooms} for rooms in COURSE]
FLOORS[len(ENGINE)] |= {f"course_lib.{room}" for room in ALIASES}
#: The front doors, which open every room, late.
DOORS = {"course_lib", "realranks"}
#: Floors of rooms that know nothing of each other.
APART = (1, len(ENGINE))
#: Rooms whose files may not import each other's, within a room: from -> to.
INSIDE_RANKS = {
    "server": {"inside"},
    "inside": set(),
    "kernel": {"inside", "server"},
    "observed": {"kernel", "inside", "server"},
    "hosts": {"kernel", "inside", "server"},
    "external": {"inside"},
}
#: Arrows that run up all the same, and why.
MEANT = {
    ("course_lib.grading.worth_reading", "course_lib.lab"): "a name that it looks for in answers",
    ("course_lib.grading.worth_reading", "course_lib.lessons"): "a name that it looks for in answers",
    ("course_lib.grading.worth_reading", "course_lib.notebook"): "a name that it looks for in answers",
    ("course_lib.grading.worth_reading", "course_lib.cli"): "a name that it looks for in answers",
    ("course_lib.cli.app", "tools.commands.notebooks"): "a command that there is in a checkout only",
    ("course_lib.cli.app", "tools.commands.selfcheck"): "a command that there is in a checkout only",
    ("course_lib.cli.app", "tools.commands.site"): "a command that there is in a checkout only",
    ("course_lib.cli.app", "tools.commands.slides"): "a command that there is in a checkout only",
}

#: What is imported inside functions, and why. Libraries other than the course's own are imported late wherever a kernel
#: may load the file: that is what makes loading a file cheap.
LATE = {
    "course_lib.lessons.synchronised.moments": "loads torch: for ranks",
    "course_lib.lab.patterns": "loads torch: for ranks",
    "course_lib.lessons.unused.heads": "loads torch: for ranks",
    "course_lib.lessons.wrappers.places": "loads torch: for ranks",
    "course_lib.lessons.out_of_memory.detector": "loads torch: for ranks",
    "course_lib.failing_memory": "loads torch: for ranks",
    "course_lib.lessons.first_ranks.tasks.process": "a kernel that draws does not load what starts processes",
    "course_lib.tasks.launching": "a kernel that draws does not load what starts processes",
    "realranks.ranks.kernel.launcher": "the front door, which starts to load torch before it loads anything itself",
    "course_lib.notebook.extension": "the front door: `import course_lib` in a rank or a script loads no notebook",
    "realranks.cells.extension": "the front door: `import realranks` in a rank or a script loads no notebook",
    "course_lib.board.sender": "a kernel that has not been asked to join a class board loads nothing of it",
    "realranks.pytest_ranks.run_test": "pytest loads the plugin in every run, and few have a test for ranks",
    "realranks.pytest_ranks.torchrun": "the same, and few suites are started by torchrun",
    "realranks.pytest_ranks.rewriting": "for ranks: it puts pytest's own machinery in place when it is loaded",
    "realranks.outcome.report": "an outcome prints itself with it, and it is made from outcomes: to cut this circle, "
    "the class that learners hold would have to be two, one with the data and one that prints them",
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for package in PACKAGES for path in package.rglob("*.py") if is_module(path)}


def imported(path: Path, *, top_only: bool = False) -> set[str]:
    """The modules of ours that a file imports, or names in a string such as `realranks.x:function`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return named(at_import_time(tree) if top_only else ast.walk(tree), strings=not top_only)


def imported_at_top(path: Path) -> set[str]:
    """The modules of ours that a file imports outside of functions, also for type checkers only."""
    return named(ast.walk(ast.parse(path.read_text(encoding="utf-8"))), strings=False) - imported_late(path)


def imported_late(path: Path) -> set[str]:
    """The modules of ours that a file imports inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return named((node for function in functions for node in ast.walk(function)), strings=False)


def named(nodes: Iterable[ast.AST], *, strings: bool) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and strings:
            found.add(node.value.partition(":")[0])
    return (found & MODULES.keys()) - DOORS


def at_import_time(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run when the file is imported; those for type checkers do not."""
    return [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]


def room(module: str) -> str:
    package, _, rest = module.partition(".")
    return f"course_lib.{package}" if package == "tools" else f"{package}.{rest.partition('.')[0]}"


def floor(module: str) -> int | None:
    return next((number for number, rooms in enumerate(FLOORS) if room(module) in rooms), None)


def test_every_room_has_its_floor():
    assert {module for module in MODULES if floor(module) is None} == DOORS


def test_arrows_run_one_way():
    up = {
        (module, other)
        for module, path in MODULES.items()
        if module not in DOORS
        for other in imported(path)
        if (floor(other) or 0) > (floor(module) or 0)
    }
    assert up == MEANT.keys()


def test_rooms_on_the_lowest_floors_do_not_know_each_other():
    across = {
        (module, other)
        for module, path in MODULES.items()
        if module not in DOORS and floor(module) in APART
        for other in imported(path)
        if floor(other) == floor(module) and room(other) != room(module)
    }
    assert across == set()


def part_of_ranks(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["realranks", "ranks"] and len(parts) > 3 else None


def test_what_runs_in_a_rank_knows_nothing_of_the_kernel():
    across = {
        (module, other)
        for module, path in MODULES.items()
        if (here := part_of_ranks(module)) is not None
        for other in imported(path)
        if (there := part_of_ranks(other)) not in (None, here) and there not in INSIDE_RANKS[here]
    }
    assert across == set()


def test_the_doctor_reads_and_runs_nothing():
    """What starts processes or opens files is in the rooms around it."""
    tools = re.compile(
        r"^ *(?:import|from) (os|sys|io|pathlib|socket|subprocess|threading|tempfile|torch)\b", re.MULTILINE
    )
    found = {
        (module, name)
        for module, path in MODULES.items()
        if module.startswith("realranks.doctor")
        for name in tools.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_what_is_imported_late_has_a_reason():
    assert set().union(*map(imported_late, MODULES.values())) == LATE.keys()


def test_no_files_import_each_other_in_a_circle():
    """Not even for types. A late import breaks a circle, and says so at its line."""
    graph = {module: imported_at_top(path) - {module} for module, path in MODULES.items()}
    while leaves := {module for module, others in graph.items() if not others & graph.keys()}:
        graph = {module: others for module, others in graph.items() if module not in leaves}
    # What is left takes part in a circle, or imports a file that does.
    assert graph == {}


@pytest.mark.parametrize(
    "path", sorted(path for path in MODULES.values() if path.stem == "__init__"), ids=module_of
)
def test_every_room_has_a_door_sign_that_says_what_it_is(path):
    sign = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert len(sign) >= 40


IMPORTED = re.compile(r"from ((?:course_lib|realranks|tools)(?:\.\w+)*) import (\w+)")


def test_what_code_in_strings_and_documents_imports_is_there():
    """A hostile answer that fails at its import would be refused for the wrong reason."""
    texts = [
        path
        for folder in ("tests", "docs", "benchmarks", "course_lib/lessons", "exercises")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".jinja")
    ]
    gone = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in [*texts, *ROOT.glob("*.md")]
        for found in IMPORTED.finditer(path.read_text(encoding="utf-8"))
        if not is_there(found[1], found[2])
    ]
    assert gone == []


def is_there(module: str, name: str) -> bool:
    if f"{module}.{name}" in MODULES:
        return True
    return (
        module in MODULES
        and re.search(rf"\b{name}\b", MODULES[module].read_text(encoding="utf-8")) is not None
    )


def test_a_kernel_loads_nothing_that_runs_in_a_rank():
    """What a rank does stays there: a kernel is ready sooner, and files of ranks may need torch."""
    shown = ("realranks.cells", "course_lib.notebook")
    reached, new = set(), {module for module in MODULES if module.startswith(shown)}
    while new:
        reached |= new
        packages = {module.rpartition(".")[0] for module in new}
        new = {other for module in new for other in imported(MODULES[module], top_only=True)}
        new = (new | packages & MODULES.keys()) - reached - DOORS
    ranks_own = {module for module in reached if module.startswith("realranks.ranks.inside.")}
    assert ranks_own == set()
