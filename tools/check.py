"""Does a saved notebook match its source, did every cell run, and is it free of this machine's traces?"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import nbformat

from tools.plan import NOTEBOOK_FOLDERS, BuildError, Target, find_targets
from tools.source import notebook_for

# What tells of one machine or one run. Such an output differs for everybody else, and nbval would say so
# too late.
_TRACES = {
    "a path of one machine": re.compile(
        r"(?:/(?:home|Users|root|tmp|var/folders|dev/shm)/|[A-Z]:\\+Users\\+)[\w.-]|/[\w./-]+/site-packages/"
    ),
    "a port": re.compile(r"(?:127\.0\.0\.1|localhost|\[::1?\]):\d{4,5}\b"),
    "a process id": re.compile(r"\bpid[ =:]+\d+", re.IGNORECASE),
    "a memory address": re.compile(r"\bat 0x[0-9a-f]{6,}\b"),
    # A course that was being merged when the notebook was built. In HTML it is quoted.
    "a merge conflict": re.compile(r"(?:<|&lt;){7} |(?:>|&gt;){7} "),
}
#: Seven digits that count: float32 holds no more, and processors do not agree on the last ones of a sum or a product.
_TOO_EXACT = re.compile(r"(?<![\w.])(?=\d*\.\d+(?![\d.]))0*\.?0*[1-9](?:\.?\d){6,}")


def check_notebooks(
    root: Path, names: Sequence[str] = (), tell: Callable[[int, int], None] | None = None
) -> list[str]:
    """Return one line for each thing wrong with the saved notebooks below `root`; none means they match.

    Nothing is executed. Checks all notebooks (and that none is without a source), or those that `names`
    mean; `tell` is called with how many are done, and how many there are.
    """
    targets = find_targets(root, names)
    problems: list[str] = []
    for number, target in enumerate(targets, start=1):
        problems += _problems(target)
        if tell is not None:
            tell(number, len(targets))
    if not names:
        problems += _orphans(root, targets)
    return problems


def _problems(target: Target) -> Iterator[str]:
    try:
        wanted = notebook_for(target)
        saved = nbformat.read(target.notebook, as_version=4)
    except FileNotFoundError:
        yield f"{target.name}: not built yet"
        return
    except (BuildError, nbformat.reader.NotJSONError) as error:
        yield f"{target.name}: {error}"
        return
    yield from (f"{target.name}{problem}" for problem in _differences(wanted, saved))
    yield from (f"{target.name}{problem}" for problem in _flaws(saved))


def _differences(wanted: nbformat.NotebookNode, saved: nbformat.NotebookNode) -> Iterator[str]:
    if saved.metadata != wanted.metadata:
        yield ": the notebook's metadata differ from what the build writes"
    for number, (want, have) in enumerate(zip(wanted.cells, saved.cells, strict=False), start=1):
        for part in ("cell_type", "source", "metadata", "id"):
            if want.get(part) != have.get(part):
                first_line = (want.source.splitlines() or [""])[0]
                yield f", cell {number}: its {part} does not match the source ({first_line!r} there)"
                return  # one inserted cell would otherwise be reported for every cell after it
    if len(saved.cells) != len(wanted.cells):
        yield f": {len(saved.cells)} cells, but the source has {len(wanted.cells)}: `make notebooks` builds it"


def _flaws(saved: nbformat.NotebookNode) -> Iterator[str]:
    for number, cell in enumerate(saved.cells, start=1):
        if cell.cell_type != "code":
            continue
        if cell.execution_count is None:
            yield f", cell {number}: ran in no run"
        compared = not any(tag.startswith("nbval-") for tag in cell.metadata.get("tags", ()))
        for text in _texts(cell):
            if trace := _trace(text):
                yield f", cell {number}: its output holds {trace}"
            if compared and (match := _TOO_EXACT.search(text)):
                yield f", cell {number}: its output holds more than six digits ({match[0]}); round it"


def _texts(cell: nbformat.NotebookNode) -> Iterator[str]:
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield "\n".join(output.traceback)
        else:
            yield from (value for mime, value in output.data.items() if mime.startswith("text/"))


def _trace(text: str) -> str | None:
    for here in (str(Path.home()), sys.prefix, str(Path.cwd())):
        if len(Path(here).parts) > 1 and re.search(rf"{re.escape(here)}(?![\w-])", text):
            return f"a path of this machine: {here}"
    for what, pattern in _TRACES.items():
        if match := pattern.search(text):
            return f"{what}: {match[0]!r}"
    return None


def _orphans(root: Path, targets: Sequence[Target]) -> list[str]:
    known = {target.notebook for target in targets}
    return [
        f"{folder}/{path.stem}: has no source"
        for folder in NOTEBOOK_FOLDERS
        for path in sorted((root / folder).glob("*.ipynb"))
        if path not in known
    ]
