"""Lesson 14: a write in slow motion, a writer that is killed at any byte, and pictures of what is on the disk."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from course_lib.lab.explorer import Explorer, buttons, explore
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Bar, Box, Cell, Drawing, Frame, Lane, Stepper, Text, grid, lanes
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from typing import IO

#: Of the checkpoint that is there, and of the one that is written.
OLD, NEW = 10, 20
_TENTHS = 10


class HaltingFile:
    """A file for `torch.save` that calls `moment` when so many bytes are in it, for each of these numbers.

    At 0, that is when the file is opened. It has no buffer: what is written is with the operating system, and stays
    there when the process is killed.
    """

    def __init__(self, path: str, stops: Iterable[int], moment: Callable[[], None]) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115
        self._stops, self._moment, self._written = sorted(stops), moment, 0
        self._halt()

    def _halt(self) -> None:
        while self._stops and self._stops[0] == self._written:
            self._stops.pop(0)
            self._moment()

    def write(self, data: bytes) -> int:
        """Write all of it, with halts in between."""
        rest = bytes(data)
        while rest:
            piece = rest[: self._stops[0] - self._written] if self._stops else rest
            self._file.write(piece)
            self._written += len(piece)
            rest = rest[len(piece) :]
            self._halt()
        return len(data)

    def flush(self) -> None:
        """Do nothing: `torch.save` calls it when everything is written, and nothing is in a buffer."""


#: Opens a file to write into, writes the new checkpoint into it, and is called between two steps of a way.
_Open = Callable[[str], HaltingFile]
_Save = Callable[[HaltingFile], None]
_Between = Callable[[], None]


def _over(path: str, opened: _Open, save: _Save, between: _Between) -> None:
    save(opened(path))
    between()


def _renamed(path: str, opened: _Open, save: _Save, between: _Between) -> None:
    save(opened(path + ".new"))
    os.remove(path)
    between()
    os.rename(path + ".new", path)


def _replaced(path: str, opened: _Open, save: _Save, between: _Between) -> None:
    save(opened(path + ".new"))
    between()
    os.replace(path + ".new", path)


#: How the new checkpoint comes to be at the path of the old one.
WAYS = {
    "write over it": _over,
    "beside it, remove, rename": _renamed,
    "beside it, replace": _replaced,
}


def _checkpoint(step: int) -> dict[str, object]:
    import torch

    return {"step": step, "weights": torch.full((1000,), float(step))}


def _save_new(file: HaltingFile) -> None:
    import torch

    torch.save(_checkpoint(NEW), cast("IO[bytes]", file))


def size_of_new() -> int:
    """Return the number of bytes of the new checkpoint."""
    import io

    import torch

    buffer = io.BytesIO()
    torch.save(_checkpoint(NEW), buffer)
    return buffer.tell()


def _what_loads(path: str) -> str:
    """Load the checkpoint and return its step, or the name of the error."""
    import torch

    try:
        return str(torch.load(path)["step"])
    except Exception as error:
        return type(error).__name__


def shared_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that ranks find as CHECKPOINTS in their environment, if they start after this call."""
    folder = tempfile.TemporaryDirectory()
    os.environ["CHECKPOINTS"] = folder.name
    return folder


# The write in slow motion


def slow_motion(way: str, folder: str) -> list[str]:
    """Write the new checkpoint on rank 0, halting at every tenth; on rank 1 note at each halt what loads."""
    import torch
    import torch.distributed as dist

    path, found = os.path.join(folder, f"{way}.pt"), []

    def halt(going_on: int = 1) -> None:
        """Keep rank 0 here until rank 1 has tried to load what is there now."""
        dist.broadcast(torch.tensor(going_on), src=0)
        dist.barrier()

    if dist.get_rank() == 0:
        size = size_of_new()
        tenths = [size * tenth // _TENTHS for tenth in range(_TENTHS + 1)]
        torch.save(_checkpoint(OLD), path)
        halt()
        WAYS[way](path, lambda name: HaltingFile(name, tenths, halt), _save_new, halt)
        halt()
        halt(going_on=0)
        return []
    while True:
        going_on = torch.tensor(0)
        dist.broadcast(going_on, src=0)
        if going_on:
            found.append(_what_loads(path))
        dist.barrier()
        if not going_on:
            return found


def draw_film(found: Sequence[str], folder: str) -> Drawing:
    """Draw what rank 1 could load at each moment: as seen for the first way, with real ranks for the others."""
    film = {next(iter(WAYS)): found}
    for way in list(WAYS)[1:]:
        film[way] = run_quietly(slow_motion, way, folder, ranks=2).values[1]
    # Short words: each stands under a narrow column.
    moments = ["old", *(f"{10 * tenth} %" for tenth in range(_TENTHS + 1)), "call", "end"]
    cells, texts = {}, []
    for row, (way, seen) in enumerate(film.items()):
        for column, what in enumerate(seen):
            look = {str(OLD): "even", str(NEW): "good"}.get(what, "bad")
            text = what if what.isdigit() else "✗"
            cells[row, column] = Cell(look, text, f"{way}, {moments[column]}: {what}")
        errors = sorted({what for what in seen if not what.isdigit()})
        texts.append(f"{way}: {', '.join([*dict.fromkeys(w for w in seen if w.isdigit()), *errors])}")
    return grid(
        list(film),
        moments,
        cells,
        title=f"What rank 1 loads: step {OLD}, step {NEW}, or an error (✗)",
        alt="; ".join(texts),
        axis=f"old: before; then how much of step {NEW} is written; call: before the way's last call; end: after it",
    )


# Kill the writer


def write_killed(way: str, kill_at: int, folder: str) -> None:
    """Write over the old checkpoint in one of the `WAYS`, and be killed when so many bytes are written.

    Args:
        kill_at: from 0 to all bytes of the file; one more: between two steps of the way, after the last byte.
    """
    import torch

    path = os.path.join(folder, "model.pt")
    torch.save(_checkpoint(OLD), path)
    size = size_of_new()

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    between = die if kill_at > size else lambda: None
    WAYS[way](path, lambda name: HaltingFile(name, [kill_at], die), _save_new, between)


def files_in(folder: str) -> dict[str, tuple[int, str]]:
    """Return, by name of a file, its bytes and what loading it gives."""
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return {os.path.basename(path): (os.path.getsize(path), _what_loads(path)) for path in paths}


def left_on_disk(way: str, kill_at: int) -> dict[str, tuple[int, str]]:
    """Kill a rank there and return what a new process finds, as `files_in` does."""
    with tempfile.TemporaryDirectory() as folder:
        run_quietly(write_killed, way, kill_at, folder, ranks=1, init=False)
        left: dict[str, tuple[int, str]] = run_quietly(files_in, folder, ranks=1, init=False).values[0]
        return left


def explore_kills() -> Explorer:
    """Return controls that kill the rank that writes, after any number of bytes: what the next process finds."""
    import ipywidgets as widgets

    size = int(run_quietly(size_of_new, ranks=1, init=False).values[0])
    kill_at = widgets.IntSlider(
        size // 2,
        0,
        size + 1,
        description="killed at byte",
        continuous_update=False,
        layout={"width": "95%"},
        style={"description_width": "auto"},
    )
    return explore(
        lambda way, kill_at: draw_left(left_on_disk(way, kill_at), way, kill_at, size),
        "the way in which a checkpoint is written, and the byte at which its writer is killed",
        "all bytes at which the file that is being written can be loaded; a kill after which the next job finds no "
        f"<code>model.pt</code> at all. (The last place, {size + 1}, is after the last byte: between "
        "<code>os.remove</code> and <code>os.rename</code>, for example.)",
        way=buttons("", list(WAYS), label="0"),
        kill_at=kill_at,
    )


def next_job(left: Mapping[str, tuple[int, str]]) -> str:
    """Describe what happens to a job that loads `model.pt`."""
    if "model.pt" not in left:
        return "the next job finds no checkpoint"
    what = left["model.pt"][1]
    return f"the next job resumes at step {what}" if what.isdigit() else f"the next job gets {_a(what)}"


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


def draw_left(left: Mapping[str, tuple[int, str]], way: str, kill_at: int, size: int) -> Drawing:
    """Draw a bar for each file, as long as its bytes."""
    start, width, top, row = 118, 440, 10, 44
    shapes: list[Shape] = []
    texts = []
    for number, name in enumerate(("model.pt", "model.pt.new")):
        y = top + number * row
        shapes.append(Text(start - 8, y + 20, name, 13, "end", mono=True))
        shapes.append(Box(start, y, width, 30, dashed=True, edge=0.5))
        if name not in left:
            shapes.append(Text(start + width + 10, y + 20, "is not there", faint=True))
            texts.append(f"{name} is not there")
            continue
        found, what = left[name]
        look = {str(OLD): "even", str(NEW): "good"}.get(what, "bad")
        said = f"step {what}" if what.isdigit() else what
        shapes.append(Box(start, y, min(1, found / size) * width, 30, look, said, edge=0.5))
        shapes.append(Text(start + width + 10, y + 20, f"{found} bytes: {said}"))
        texts.append(f"{name}: {found} bytes, {said}")
    when = (
        f"Killed after {kill_at} of {size} bytes" if kill_at <= size else "Killed when all bytes are written"
    )
    if kill_at > size and way == next(iter(WAYS)):
        when = "Not killed before the end"
    return Drawing(
        760, top + 2 * row, tuple(shapes), f"{way}; {'; '.join(texts)}", f"{when}: {next_job(left)}"
    )


# Power failure

_NOTHING, _UNKNOWN = "", "?"
#: What has been called; what the two names hold for processes and on the disk (model.pt, model.pt.new); a sentence.
_DURABLE: tuple[tuple[str, tuple[str, str], tuple[str, str], str], ...] = (
    (
        "before",
        ("step 10", _NOTHING),
        ("step 10", _NOTHING),
        "The old checkpoint is there, for all processes and on the disk.",
    ),
    (
        "torch.save(state, file), file.flush()",
        ("step 10", "step 20"),
        ("step 10", _UNKNOWN),
        (
            "The new one is written beside it. The operating system has all bytes, the disk has as many as it likes. "
            "A kill of the process loses none of them; a power failure may."
        ),
    ),
    (
        "os.replace without an fsync before it",
        ("step 20", _NOTHING),
        (_UNKNOWN, _NOTHING),
        (
            "The names may reach the disk before the bytes. After a power failure, model.pt may be empty, "
            "and the old one is gone."
        ),
    ),
    (
        "os.fsync(file.fileno()) instead",
        ("step 10", "step 20"),
        ("step 10", "step 20"),
        "fsync returns when the bytes of this file are on the disk.",
    ),
    (
        "os.replace(new, path)",
        ("step 20", _NOTHING),
        ("step 10", "step 20"),
        (
            "All processes see the new checkpoint at once. On the disk the names change later. "
            "After a power failure, model.pt is the old one or the new one, and complete."
        ),
    ),
    (
        "os.fsync(folder)",
        ("step 20", _NOTHING),
        ("step 20", _NOTHING),
        "The names are kept in the folder. When the folder is on the disk too, step 20 survives a power failure.",
    ),
)


def on_the_disk() -> Stepper:
    """Show what each call of a durable save does to the two names: for processes, and on the disk."""
    frames = tuple(Frame(_names(called, seen, kept), said) for called, seen, kept, said in _DURABLE)
    return Stepper(frames, "From torch.save to the disk", matter=(1, 2, 3, 4, 5))


def _names(called: str, seen: Sequence[str], kept: Sequence[str]) -> Drawing:
    left, width, top, row = 118, 150, 30, 44
    places = (left, left + width + 90)
    shapes: list[Shape] = [
        Text(places[0] + width / 2, top - 12, "what processes see", 12, "middle"),
        Text(places[1] + width / 2, top - 12, "what is on the disk", 12, "middle"),
    ]
    for number, (name, *held) in enumerate(zip(("model.pt", "model.pt.new"), seen, kept, strict=True)):
        y = top + number * row
        shapes.append(Text(left - 8, y + 20, name, 13, "end", mono=True))
        for x, what in zip(places, held, strict=True):
            look = {"step 10": "even", "step 20": "good", _UNKNOWN: "bad"}.get(what, "")
            words = "perhaps a part" if what == _UNKNOWN else what
            shapes.append(Box(x, y, width, 30, look, words, dashed=not look, edge=0.5))
        if held[0] == held[1] != _NOTHING:
            shapes.append(Arrow(places[0] + width + 4, y + 15, places[1] - 4, y + 15, faint=True))
    return Drawing(560, top + 2 * row, tuple(shapes), called, called)


# What is left out of a checkpoint


def draw_left_out(off: Mapping[str, float]) -> Drawing:
    """Draw a bar for each part left out: by how much a loss differs from the run without a break."""
    bars = [
        Lane(part, ((Bar(0, value, "good" if value == 0 else "sleep", f"{value:.2f}"),),))
        for part, value in off.items()
    ]
    alt = "; ".join(f"{part}: {'0' if value == 0 else 'not 0'}" for part, value in off.items())
    return lanes(
        bars,
        title="Left out of the checkpoint: what that does to the loss",
        alt=alt,
        legend={"sleep": "largest difference of a loss, over all ranks and steps", "good": "no difference"},
        unit="loss",
    )


# A folder that is saved to twice


def saved_again(folder: str) -> None:
    """Save step 10 into the folder with DCP, then step 20 over it: rank 1 is killed after rank 0's write."""
    import warnings

    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    class Interrupted(dcp.FileSystemWriter):
        def write_data(self, plan: Any, planner: Any) -> Any:
            if dist.get_rank() == 1:
                dist.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
            written = super().write_data(plan, planner)
            dist.barrier()
            return written

    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (2,))
    for step in (OLD, NEW):
        weights = distribute_tensor(torch.full((1000, 20), float(step)), mesh, [Shard(0)])
        writer = (dcp.FileSystemWriter if step == OLD else Interrupted)(folder)
        dcp.save({"weights": weights}, storage_writer=writer)


# Questions


def loads_a_part(outcome: Outcome) -> bool:
    """Return whether rank 1 has loaded weights, some of which are not those that were saved."""
    return outcome.ok and outcome.values[1] != 1


def always_loads(outcome: Outcome) -> bool:
    """Return whether there was a checkpoint that loads at every moment."""
    return set(outcome.values[1]) <= {str(OLD), str(NEW)}


def loads_near_the_end(outcome: Outcome) -> bool:
    """Return whether the old one was lost at once, and the new one loaded before it was complete."""
    return outcome.values[1].count(str(NEW)) > 3 and str(OLD) not in outcome.values[1][1:]


def never_loads(outcome: Outcome) -> bool:
    """Return whether the old one was lost at once, and the new one loaded once it was complete."""
    return outcome.values[1].count(str(NEW)) <= 3 and str(OLD) not in outcome.values[1][1:]


def of_a_later_step(outcome: Outcome) -> bool:
    """Return whether all weights in the file are of one step, later than the one that started the thread."""
    return len(outcome["found"][0]) == 1 and outcome["found"][0] > [3]


def of_several_steps(outcome: Outcome) -> bool:
    """Return whether the file holds weights of more than one step."""
    return len(outcome["found"][0]) > 1


def harmless(*parts: str) -> Callable[[Outcome], bool]:
    """Predict that the first loss is right without one of these parts, and without no other."""
    return lambda outcome: (
        {part for part, off in outcome["first"][0].items() if not off} == {*parts, "nothing"}
    )
