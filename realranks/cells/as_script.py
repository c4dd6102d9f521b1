"""A notebook's cells on ranks as one script for `torchrun`, which a cluster can run without the notebook.

Pure: a notebook in, text out. What is on ranks in the notebook is in the script, and nothing else: cells of the kernel
are not. Cells that share ranks, and so variables, become one function, a *part*. What a saved output says of a cell
decides whether it can be in a script, where nobody frees blocked ranks: see `_why_left_out`.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import io
import json
import re
import tokenize
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from realranks import own_code
from realranks.cells.magics import RankMagics
from realranks.cells.options import options_of
from realranks.outcome.expect import Expectation, ExpectationError
from realranks.outcome.outcome import Kind
from realranks.outcome.syntax import compile_cell, parsed, parsed_expression

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: By this line the course knows a script of its own again.
MARK = "Written by `ddp-course export`"
#: The tag of a cell that only means something in the notebook.
ONLY_HERE = "notebook-only"
_MAGIC = "%%ranks"
_WIDTH = 110
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
#: What a report says where ranks did not end by themselves (`ranks/kernel/rebuild_group.py`, `doctor/deaths.py`).
_FREED = ("The process group has been rebuilt", "The process group could not be", "The ranks are free again")
_DIED = ("the next %%ranks starts new ranks", "✓ As expected: died: ")
#: ... and where new ones came: the first two are of `cells/session.py`.
_NEW_RANKS = ("the variables of the old ones are lost.",)
_SETS_VARIABLE = re.compile(r"^os\.environ\[[\"'](?P<name>\w+)[\"']\] = .*", re.MULTILINE)
_RAISED = re.compile(r"^(?:ranks? [\d,-]+)? +\|   line \d+ of this cell$", re.MULTILINE)


class NoScript(Exception):
    """The notebook cannot be written as a script; the message is one line."""


@dataclass(frozen=True)
class RankCell:
    """A cell that runs on ranks.

    Attributes:
        number: which of the notebook's code cells it is, from 1: `In [8]` after a run from top to bottom.
        heading: of the section in which it stands. line: what stands behind `%%ranks`. source: the lines below.
        said: what its last run has shown, as text; None where it has never run.
        only_here: it has the tag `notebook-only`.
    """

    number: int
    heading: str
    line: str
    source: str
    options: argparse.Namespace
    said: str | None
    only_here: bool = False

    def has_said(self, phrases: Iterable[str]) -> bool:
        """Check whether its last run has shown one of these."""
        return any(phrase in (self.said or "") for phrase in phrases)


@dataclass
class Part:
    """Cells that run on the same ranks, one after the other, and share their variables."""

    ranks: int
    backend: str
    init: bool
    cells: list[RankCell] = field(default_factory=list)


def rank_cells(notebook: NotebookNode, given: NotebookNode | None = None) -> list[RankCell]:
    """List the notebook's cells on ranks, in their order.

    Args:
        given: the same lesson as the course gives it, executed: what is not known of a cell's run is taken from the
            cell with the same text.

    Raises:
        UsageError: an option of a cell that there is not.
    """
    known = _said_by_source(given) if given is not None else {}
    cells: list[RankCell] = []
    heading, number = "", 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = (_HEADING.findall(cell.source) or [heading])[-1].strip()
        if cell.cell_type != "code":
            continue
        number += 1
        line, _, source = cell.source.lstrip().partition("\n")
        if line.split(maxsplit=1)[:1] == [_MAGIC]:
            line = line.removeprefix(_MAGIC).strip()
            said = _said(cell)
            said = known.get(cell.source) if said is None else said
            options = options_of(RankMagics.ranks, line, _MAGIC)
            only_here = ONLY_HERE in cell.metadata.get("tags", ())
            cells.append(RankCell(number, heading, line, source.strip("\n"), options, said, only_here))
    return cells


def _said_by_source(notebook: NotebookNode) -> Mapping[str, str | None]:
    return {cell.source: _said(cell) for cell in notebook.cells if cell.cell_type == "code"}


def _said(cell: NotebookNode) -> str | None:
    """Return the text a code cell has shown; None if it has not run."""
    if not cell.outputs and cell.execution_count is None:
        return None
    texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    return "\n".join(texts)


def parts_of(cells: Iterable[RankCell]) -> list[Part]:
    """Split the cells by the ranks on which they run, following the rules of `cells/session.py`.

    Raises:
        NoScript: the first cell does not say how many ranks it wants.
    """
    parts: list[Part] = []
    died = False
    for cell in cells:
        wanted, old = cell.options, parts[-1] if parts else None
        if wanted.size is None and old is None:
            raise NoScript(f"cell {cell.number} does not say on how many ranks it runs (%%ranks 4).")
        new = Part(
            int(wanted.size) if wanted.size or old is None else old.ranks,
            wanted.backend or (old.backend if old else "auto"),
            not wanted.no_init and (wanted.size is not None or old is None or old.init),
        )
        same = old is not None and (old.ranks, old.backend, old.init) == (new.ranks, new.backend, new.init)
        if not same or wanted.fresh or died or cell.has_said(_NEW_RANKS):
            parts.append(new)
        parts[-1].cells.append(cell)
        died = _expected(cell) is Kind.DIED or cell.has_said(_DIED)
    return parts


def _expected(cell: RankCell) -> Kind | None:
    """Return how the cell says that it ends; None if a question decides that, or it cannot be parsed."""
    try:
        return None if cell.options.predicted else Expectation.parse(cell.options.expect or "ok").kind
    except ExpectationError:
        return None


def _why_left_out(cell: RankCell) -> str:
    """Explain why the cell cannot be in a script; '' if it can."""
    expected = _expected(cell)
    if cell.only_here:
        return "it needs what the notebook's kernel makes"
    if cell.options.stop_after is not None:
        return "it waits for the stop button"
    if expected is Kind.DIED or cell.has_said(_DIED):
        return "a rank dies in it"
    if expected is Kind.HANG or cell.has_said(_FREED):
        return "it does not end by itself: in the notebook, its ranks are freed"
    if cell.said is None and expected is not Kind.OK:
        return "nobody has run it yet, and it may not end by itself"
    return ""


# -- a cell as the body of a function -------------------------------------------------------------------------------


class _Code:
    """A cell's code, read once.

    Attributes:
        reads, binds: the names that it reads, and those that it binds otherwise than by an import at its top; those of
            inner functions are among them.
        needs: what it reads and does not bind itself.
        imports: its imports at its top; of each, the names that it binds, and how each is imported alone.
        problem: why it cannot be the body of a function, or nothing.
    """

    def __init__(self, source: str) -> None:
        self.lines = source.split("\n")
        self.reads: set[str] = set()
        self.binds: set[str] = set()
        self.problem = ""
        self._last: ast.stmt | None = None
        tree = ast.Module([], [])
        try:
            tree = parsed(source)
            if compile_cell(source, "", 1).value is not None:
                self._last = tree.body[-1]
        except (SyntaxError, ValueError) as error:
            self.problem = f"it is no Python ({error})"
        self.imports = {statement: names for statement in tree.body if (names := self._hoistable(statement))}
        self._definitions = [
            statement for statement in tree.body if isinstance(statement, ast.FunctionDef | ast.ClassDef)
        ]
        for node in ast.walk(tree):
            if node not in self.imports:
                self._note(node)

    @property
    def needs(self) -> set[str]:
        return self.reads - self.binds.union(*self.imports.values())

    def definitions(self) -> dict[str, _Code]:
        """Return its functions and classes, by name."""
        return {one.name: _Code("\n".join(self.lines[_lines_of(one)])) for one in self._definitions}

    def _hoistable(self, statement: ast.stmt) -> dict[str, str]:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            return {}
        if isinstance(statement, ast.ImportFrom) and (
            statement.level or statement.module == "__future__" or statement.names[0].name == "*"
        ):
            return {}
        text = "\n".join(self.lines[statement.lineno - 1 : statement.end_lineno])
        return {} if "#" in text or ";" in text else _imported(statement)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self.reads.add(name)
            case (
                ast.Name(id=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                self.binds.add(name)
            case ast.Global():
                self.problem = "it says `global`, and its variables are those of a function here"
            case ast.ImportFrom(names=[ast.alias(name="*")]) | ast.ImportFrom(module="__future__"):
                self.problem = f"it says `{ast.unparse(node)}`, which a function must not"
            case ast.Import() | ast.ImportFrom():
                self.binds |= _imported(node).keys()

    def body(self, at_top: Collection[str]) -> list[str]:
        """Return the lines of the cell, not indented, without imports of names imported at the top of the script.

        The value of the last line is printed, as a notebook would show it.
        """
        lines = list(self.lines)
        if self._last is not None and not _returns_none(self._last):
            _put_around(lines, self._last)
        for statement, names in self.imports.items():
            if names.keys() <= set(at_top):
                here = slice(statement.lineno - 1, statement.end_lineno)
                lines[here] = [""] * len(lines[here])
        while lines and not lines[0].strip():
            del lines[0]
        while lines and not lines[-1].strip():
            del lines[-1]
        return lines

    def commented(self, kept: Collection[str]) -> list[str]:
        """Return the cell's lines, not indented, as comments, apart from the kept definitions."""
        lines = [f"#     {line}".rstrip() for line in self.lines]
        for definition in self._definitions:
            if definition.name in kept:
                lines[_lines_of(definition)] = self.lines[_lines_of(definition)]
        return lines


def _lines_of(definition: ast.FunctionDef | ast.ClassDef) -> slice:
    first = min(one.lineno for one in (definition, *definition.decorator_list))
    return slice(first - 1, definition.end_lineno)


def _imported(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """List the names that an import binds, each with an import statement for that name alone."""
    start = f"from {statement.module} " if isinstance(statement, ast.ImportFrom) else ""
    return {
        one.asname or (one.name if start else one.name.partition(".")[0]): f"{start}import {ast.unparse(one)}"
        for one in statement.names
    }


def _returns_none(last: ast.stmt) -> bool:
    """Recognise a call that is known to return nothing to show."""
    called = last.value.func if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in {"print", "barrier", "backward", "destroy_process_group"}


def _put_around(lines: list[str], last: ast.stmt) -> None:
    """Wrap `show_value(...)` around a cell's last expression. The columns of a syntax tree count bytes."""
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    text = ast.get_source_segment("\n".join(lines), last)
    call = parsed_expression(f"f({text})")
    alone = isinstance(call, ast.Call) and len(call.args) == 1
    opening, closing = ("show_value(", ")") if alone else ("show_value((", "))")
    for number, column, added in (
        (last.end_lineno, last.end_col_offset, closing),
        (last.lineno, last.col_offset, opening),
    ):
        raw = lines[number - 1].encode()
        lines[number - 1] = (raw[:column] + added.encode() + raw[column:]).decode()


def _indented(lines: Iterable[str], levels: int) -> list[str]:
    """Indent the lines, apart from those that begin inside a string."""
    lines = list(lines)
    kinds = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline)
    kept = {
        number
        for token in tokens
        if token.type in kinds
        for number in range(token.start[0] + 1, token.end[0] + 1)
    }
    return [
        "    " * levels + line if line.strip() and number not in kept else line
        for number, line in enumerate(lines, 1)
    ]


# -- the script -----------------------------------------------------------------------------------------------------

#: What the script itself imports.
_OWN_IMPORTS = {
    "argparse": "import argparse",
    "contextlib": "import contextlib",
    "dist": "import torch.distributed as dist",
    "gc": "import gc",
    "multiprocessing": "import multiprocessing",
    "os": "import os",
    "pprint": "import pprint",
    "signal": "import signal",
    "sys": "import sys",
    "torch": "import torch",
}
#: Seen on torch 2.13: what `torch._dynamo` imports keeps references to the default group that it finds.
_FIRST_LOADED = """
# DDP's constructor imports this. Where a process group is there already, it is referred to from then on, and
# `destroy_process_group` does not close its connections.
import torch._dynamo  # noqa: E402
"""
_HELPERS = '''
RANK = int(os.environ.get("RANK", "-1"))


def begin_cell(number, heading, together=True):
    """The ranks begin a cell of the notebook together, and rank 0 says which."""
    if together:
        dist.barrier()
    if RANK == 0:
        print(f"\\n== cell {number}: {heading}", flush=True)


def show_value(value):
    """Print the value of a cell's last line, as a notebook shows it."""
    if value is not None:
        pprint.pp(value, width=100)


@contextlib.contextmanager
def meant_to_raise():
    """What is below raises on purpose; that is said, and the ranks go on."""
    try:
        yield
    except Exception as error:
        print(f"as the lesson says: {type(error).__name__}: {error}")
'''
_MAIN = '''
def run(part, ranks):
    """Run one part on the first ranks."""
    _, backend, has_group, _ = PARTS[part]
    os.environ["WORLD_SIZE"] = str(ranks)
    agents, _, _ = next(dist.rendezvous("env://", RANK, ranks))
    store = dist.PrefixStore(part.__name__, agents)
    if has_group:
        one_gpu_each = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
        backend = backend or ("nccl" if one_gpu_each else "gloo")
        if backend == "nccl":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend, store=store, rank=RANK, world_size=ranks)
    else:  # the cells make their groups themselves: in a store without the keys of other parts
        if RANK == 0:
            server = dist.TCPStore(os.environ["MASTER_ADDR"], 0, is_master=True, wait_for_workers=False)
            store.set("port", str(server.port))
        os.environ["MASTER_PORT"] = store.get("port").decode()
    part()
    gc.collect()  # first the wrapped models go, then the group
    if dist.is_initialized():
        dist.destroy_process_group()
    store.set(f"rank {RANK} is through", "")
    if RANK == 0:
        store.wait([f"rank {rank} is through" for rank in range(ranks)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, choices=range(1, len(PARTS) + 1), help="run only this part")
    parser.add_argument("--ranks", type=int, help="run it on so many ranks, not on as many as the lesson does")
    chosen = parser.parse_args()
    if RANK < 0:
        parser.error("start it with torchrun")
    available = int(os.environ["WORLD_SIZE"])
    ran = False
    for number, (part, (ranks, _, _, variables)) in enumerate(PARTS.items(), 1):
        ranks = chosen.ranks or ranks
        if chosen.part not in (None, number):
            continue
        lacking = [name for name in variables if name not in os.environ]
        if lacking or ranks > available:
            if RANK == 0:
                needed = f"the variable {lacking[0]}" if lacking else f"{ranks} ranks, and there are {available}"
                print(f"== part {number} is not run: it needs {needed}", flush=True)
            continue
        ran = True
        if RANK < ranks:  # in new processes, as in the notebook
            process = multiprocessing.get_context("fork").Process(target=run, args=(part, ranks))
            process.start()
            signal.signal(signal.SIGTERM, lambda *_: process.terminate())
            process.join()
            if process.exitcode:
                sys.exit(1)
    if not ran:
        sys.exit("no part of the lesson was run")


if __name__ == "__main__":
    main()
'''


def script_of(name: str, notebook: NotebookNode, given: NotebookNode | None = None) -> str:
    """Write a notebook's cells on ranks as one script.

    Args:
        name: of the notebook, without its ending. notebook, given: see `rank_cells`.

    Raises:
        NoScript: the notebook has no cells on ranks.
        UsageError: see `rank_cells`.
    """
    parts = parts_of(rank_cells(notebook, given))
    if not parts:
        raise NoScript(f"{name} has no cells on ranks (%%ranks).")
    codes = {cell.number: _Code(cell.source) for part in parts for cell in part.cells}
    # What a cell for the notebook alone imports may be a file that only the notebook writes.
    at_top = _imports_at_top(
        codes[cell.number] for part in parts for cell in part.cells if not cell.only_here
    )
    set_by_notebook = _variables_set(notebook)
    functions, rows = [], []
    for number, part in enumerate(parts, 1):
        left_out = _left_out(part, codes, at_top)
        functions.append(_function(number, part, codes, left_out, at_top))
        sources = [cell.source for cell in part.cells if cell.number not in left_out]
        needs = tuple(name for name in set_by_notebook if any(json.dumps(name) in text for text in sources))
        backend = "" if part.backend == "auto" else part.backend
        rows.append(f"    part_{number}: ({part.ranks}, {json.dumps(backend)}, {part.init}, {needs}),\n")
    table = (
        "# Of each part: its ranks, its backend (empty: what the machine offers), whether it finds a process group,\n"
        "# and what variables it needs beside those that torchrun sets.\n"
        f"PARTS = {{\n{''.join(rows)}}}\n"
    )
    head = _head(name, parts, set_by_notebook)
    return "\n".join([head, _import_lines(at_top), _FIRST_LOADED, _HELPERS, *functions, "", table, _MAIN])


def _imports_at_top(codes: Iterable[_Code]) -> dict[str, str]:
    """Collect imports of names that mean one thing in the whole script, also those from left-out cells."""
    codes = list(codes)
    meanings: dict[str, set[str]] = {name: {text} for name, text in _OWN_IMPORTS.items()}
    for code in codes:
        for names in code.imports.values():
            for name, text in names.items():
                meanings.setdefault(name, set()).add(text)
    bound = set().union(*(code.binds for code in codes))
    plain = {name: f"import {name}" for name in meanings}
    return {
        name: texts
        for name, texts in (
            # `import torch` and `import torch.nn` both bind `torch`.
            (name, "\n".join(sorted(texts)))
            for name, texts in meanings.items()
            if len(texts) == 1 or all(text.startswith(plain[name]) and " as " not in text for text in texts)
        )
        if name in _OWN_IMPORTS or name not in bound
    }


def _import_lines(at_top: Mapping[str, str]) -> str:
    """Sort the imports: modules, then names from modules; the course's own last."""
    modules: set[str] = set()
    names: dict[str, set[str]] = {}
    for text in "\n".join(at_top.values()).split("\n"):
        start, _, what = text.partition(" import ")
        if what:
            names.setdefault(start, set()).add(what)
        else:
            modules.add(text)
    lines = sorted(modules)
    for start in sorted(names):
        line = f"{start} import {', '.join(sorted(names[start]))}"
        if len(line) > _WIDTH:
            line = f"{start} import (\n    " + ",\n    ".join(sorted(names[start])) + ",\n)"
        lines.append(line)
    return "\n".join(sorted(lines, key=lambda line: any(ours in line for ours in own_code.folders())))


def _variables_set(notebook: NotebookNode) -> dict[str, str]:
    """Find the environment variables that plain cells set for later ranks, each with its line."""
    found: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.source.startswith("%%"):
            for match in _SETS_VARIABLE.finditer(cell.source):
                found[match["name"]] = match[0].strip()
    return found


@dataclass(frozen=True)
class _LeftOut:
    """A cell that cannot be in the script: why, and which of its functions and classes can."""

    why: str
    kept: tuple[str, ...]


def _left_out(part: Part, codes: Mapping[int, _Code], at_top: Mapping[str, str]) -> dict[int, _LeftOut]:
    """Find the cells that cannot be in the script, by number."""
    found: dict[int, _LeftOut] = {}
    there = {*dir(builtins), *at_top, "__name__", "__file__"} - {
        "display",
        "get_ipython",
    }  # IPython puts these there
    for cell in part.cells:
        code = codes[cell.number]
        why = _why_left_out(cell) or code.problem
        if not why and not _raises(cell) and (missing := code.needs - there):
            why = f"it needs {min(missing)}, which no cell above it makes here"
        if not why:
            there |= code.binds.union(*code.imports.values())
            continue
        kept = [name for name, code in code.definitions().items() if code.needs <= there | {name}]
        there |= set(kept)
        found[cell.number] = _LeftOut(why, tuple(kept))
    return found


def _raises(cell: RankCell) -> bool:
    return _expected(cell) is Kind.RAISES or _RAISED.search(cell.said or "") is not None


def _function(
    number: int,
    part: Part,
    codes: Mapping[int, _Code],
    left_out: Mapping[int, _LeftOut],
    at_top: Mapping[str, str],
) -> str:
    """Write one part as a function."""
    lines = ["", f"def part_{number}():"]
    for cell in part.cells:
        title = f"cell {cell.number}: {cell.heading} ({f'{_MAGIC} {cell.line}'.strip()})"
        code = codes[cell.number]
        if (left := left_out.get(cell.number)) is not None:
            apart = f", apart from {', '.join(left.kept)}" if left.kept else ""
            lines += [f"    # -- {title}", f"    # Left out{apart}: {left.why}."]
            lines += [*_indented(code.commented(left.kept), 1), ""]
            continue
        together = "" if part.init else ", together=False"
        heading = json.dumps(cell.heading, ensure_ascii=False)
        lines += [f"    # -- {title}", f"    begin_cell({cell.number}, {heading}{together})"]
        body = code.body(at_top)
        around = []
        if cell.options.only is not None:
            ranks = [rank for rank in re.split("[ ,]+", cell.options.only) if rank]
            around.append(f"if RANK in ({', '.join(ranks)},):")
        if _raises(cell):
            around.append("with meant_to_raise():")
        lines += ["    " * (1 + level) + line for level, line in enumerate(around) if body]
        lines += [*_indented(body, 1 + len(around)), ""]
    if all(cell.number in left_out for cell in part.cells):
        lines += ["    pass", ""]
    return "\n".join(lines)


def _head(name: str, parts: Sequence[Part], set_by_notebook: Mapping[str, str]) -> str:
    sizes = [part.ranks for part in parts]
    most = max(sizes)
    which = ", ".join(f"{number} ({size})" for number, size in enumerate(sizes, 1))
    half = max(1, most // 2)
    lines = [
        f'"""The cells on ranks of {name}, for torchrun.',
        "",
        "One machine:",
        f"    torchrun --standalone --nproc-per-node={most} {name}.py",
        "Two machines, the same line on both (A is the name of one of them):",
        f"    torchrun --nnodes=2 --nproc-per-node={half} --rdzv-backend=c10d --rdzv-endpoint=A:29400 {name}.py",
        "`--tee 3` before the script's name marks each line with its rank.",
        "",
        "Cells that share ranks, and so variables, are one part. The parts, and the ranks of each:",
        f"{which}.",
        "A part runs on the first of the ranks that there are, and not at all where there are too few. `--part 1` runs",
        "one part, `--ranks 8` runs it on another number of ranks: not every cell works on another number.",
        "",
        "A cell that hangs, or in which a rank dies, is left out, which is said at its place: nobody frees the others.",
        "So is one that needs what such a cell makes. The options --as, --trace and --watch have no counterpart.",
    ]
    lines += [
        f"The notebook sets a variable for its ranks; set it yourself: {line}"
        for line in set_by_notebook.values()
    ]
    return "\n".join([*lines, "", f"{MARK}, from a lesson of the course DDP by experiment.", '"""', ""])
