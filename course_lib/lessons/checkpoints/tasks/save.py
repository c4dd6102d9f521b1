"""Task 2: a checkpoint that survives a kill at any moment."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.checkpoints.tasks import early, killing
from course_lib.lessons.process_groups.tasks.bare import without_group
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate
from course_lib.tasks.weights import network, numbers
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    SaveFunction = Callable[[nn.Module, int, str], object]
    LoadFunction = Callable[[nn.Module, str], object]

_SIZES = (4, 24, 3)
_FLAG = "DDP_COURSE_FILE_HAS_RUN"


class Case(TypedDict):
    """A scene (see `describe`), the numbers of the steps in it, and where a write is cut off."""

    scene: str
    seed: int
    steps: list[int]
    bytes: int


#: Whose step number and whose weights a load has given; None where it found nothing; a text where it raised.
Loaded = list[str] | str | None


class Kill(TypedDict):
    """A process that was killed at a `write` of so many bytes, or at a `move`; and what was loaded after it."""

    kind: str
    name: str
    size: int
    place: int
    loaded: Loaded


class Seen(TypedDict, total=False):
    """Observations of the scenes.

    Attributes:
        before: what a load gave before the first save.
        loads: for each save, what loads gave after it, `with` and `without` a wrapper.
        writes: how often this rank wrote.
        kept: whether other files in the folder are what they were.
        ran: whether code in the file was run.
        unkilled, kills: what a load gave after a save that nobody disturbed; every kill.
    """

    before: Loaded
    loads: list[dict[str, Loaded]]
    writes: int
    kept: bool
    ran: bool
    unkilled: Loaded
    kills: list[Kill]


#: By name, a step number and weights as numbers.
Known = Mapping[str, tuple[int, list[float]]]
ThisTrial = Trial[Case, Seen, None]


class Surprise:
    """A stowaway in a file: loading it without care runs code."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        """Run code when unpickled: it only sets a variable."""
        return exec, (f"import os; os.environ[{_FLAG!r}] = '1'",)


def _wrap(seed: int) -> DistributedDataParallel:
    import torch

    return torch.nn.parallel.DistributedDataParallel(network(seed, *_SIZES))


class Save(Task[Case, Seen, None]):
    """A checkpoint that survives a kill at any moment."""

    name = "checkpoints.save"
    world_sizes = (1, 3)
    seconds = 20.0

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield saves and loads on all ranks; on one rank also a kill, and a file that contains code."""
        for scene in ("together", "surprise", "killed") if world_size == 1 else ("together",):
            first = chance.randint(1, 50)
            yield {
                "scene": scene,
                "seed": chance.randint(1, 10**6),
                "steps": [first, first + chance.randint(1, 50)],
                "bytes": chance.randint(300, 900),
            }

    def describe(self, case: Case) -> str:
        return {
            "together": "a save, and a load at once",
            "surprise": "a file that brings code along",
            "killed": "a kill in a save",
        }[case["scene"]]

    def trial(self, answer: SaveFunction, case: Case) -> Seen:
        load = sys.modules["__main__"].__dict__.get("load")
        folder = os.path.join(os.getcwd(), f"{case['scene']}-{case['seed']}")
        os.makedirs(folder, exist_ok=True)
        if not callable(load):
            answer(_wrap(case["seed"]), 1, os.path.join(folder, "model.pt"))
            raise WrongKind("no function load")
        scene = {"together": _save_together, "surprise": _load_surprise, "killed": _kill_while_saving}[
            case["scene"]
        ]
        return scene(answer, load, case, folder)

    #: Both functions are called.
    both = gate("There are save and load.", "on rank {rank} there is {given} in the cell")

    @check("load returns None when nothing has been saved.")
    def none_yet(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in sorted(trial.seen.items()):
            if "before" in seen and seen["before"] is not None:
                return Miss(f"before the first save, load on rank {rank} returned or raised {seen['before']}")
        return None

    @check(
        "When save returns on a rank, load finds that step and these weights there, with or without a wrapper."
    )
    def found(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in sorted(trial.seen.items()):
            for number, loads in enumerate(seen.get("loads", ())):
                for how, loaded in loads.items():
                    if loaded == ["new", "new"]:
                        continue
                    return Miss(
                        f"after save {number + 1} on {toys.ranks_text(trial.world_size)}, on rank {rank}, load into a "
                        f"model {how} a wrapper {_in_words(loaded)}",
                        _why(trial, rank, loaded, how, number),
                    )
        return None

    @check("Other files in the same folder are left alone.")
    def others_kept(self, trial: ThisTrial) -> Miss | None:
        """Checkpoints of other trainings among them."""
        for rank, seen in sorted(trial.seen.items()):
            if not seen.get("kept", True):
                return Miss(f"rank {rank} of {trial.world_size} found the other files changed, or gone")
        return None

    @check("One rank writes.")
    def one_writes(self, trial: ThisTrial) -> Miss | None:
        writers = [rank for rank, seen in sorted(trial.seen.items()) if seen.get("writes")]
        if len(writers) > 1:
            return Miss(f"{len(writers)} of {trial.world_size} ranks wrote", "all_write")
        return None

    @check("load runs nothing that is in the file.")
    def runs_nothing(self, trial: ThisTrial) -> Miss | None:
        ran = any(seen.get("ran") for seen in trial.seen.values())
        return Miss("code in the file was run", "runs_files") if ran else None

    @check("Whenever save is killed, load finds the last checkpoint or the new one, entire.")
    def survives(self, trial: ThisTrial) -> Miss | None:
        """At every byte, and before every rename."""
        for kill in trial.seen[0].get("kills", ()):
            if kill["loaded"] in (["old", "old"], ["new", "new"]):
                continue
            name = "path" if kill["name"] == "model.pt" else f"another file ({kill['name'][:40]})"
            where = (
                f"when {kill['size']} bytes of {name} were written"
                if kill["kind"] == "write"
                else f"before {name} was renamed or removed"
            )
            whole = trial.seen[0]["unkilled"] == ["new", "new"]
            known = _lost(kill) if whole else _by_names(kill["loaded"])
            return Miss(f"killed {where}, load {_in_words(kill['loaded'])}", known)
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a file that another rank has renamed already."""
        lost = any(error.type == "FileNotFoundError" for error in outcome.errors.values())
        return "all_write" if lost and outcome.world_size > 1 else None


def _load(load: LoadFunction, path: str, model: nn.Module, known: Known) -> Loaded:
    """Load into this model; return [whose step, whose weights], or a text if it raised or returned no number."""
    try:
        step = load(model, path)
    except Exception as error:
        if "closed by peer" in str(error) or "Connection" in str(error):
            raise
        return f"{type(error).__name__}: {error}"[:600]
    if step is None:
        return None
    found, weights = toys.number_or_text(step), numbers(model.parameters())
    steps = [name for name, (number, _) in known.items() if number == found]
    values = [name for name, (_, numbers_) in known.items() if numbers_ == weights]
    return [*(steps or ["wrong"]), *(values or ["none"])]


def _save_together(save: SaveFunction, load: LoadFunction, case: Case, folder: str) -> Seen:
    """Save twice on all ranks and load at once after each."""
    path = os.path.join(folder, "model.pt")
    seen: Seen = {"loads": [], "writes": 0}
    _leave_strangers(folder)
    model, empty = _wrap(case["seed"]), {"empty": (-1, numbers(network(1, *_SIZES).parameters()))}
    seen["before"] = _load(load, path, network(1, *_SIZES), empty)
    for number, step in enumerate(case["steps"]):
        source = network(case["seed"] + number, *_SIZES)
        model.module.load_state_dict(source.state_dict())
        known = {**empty, "new": (step, numbers(source.parameters()))}
        call = early.Early(f"{case['seed']}/{number}")
        with call.watched():
            save(model, step, path)
        seen["writes"] += call.writes
        plain = _load(load, path, network(1, *_SIZES), known)
        model.module.load_state_dict(network(1, *_SIZES).state_dict())
        seen["loads"].append({"without": plain, "with": _load(load, path, model, known)})
    seen["kept"] = _strangers_kept(folder)
    return seen


def _strangers() -> dict[str, bytes]:
    import io

    import torch

    other = io.BytesIO()
    torch.save({"step": 10**6, "model": network(2, *_SIZES).state_dict()}, other)
    return {"999999.pt": other.getvalue(), "other.pt": other.getvalue(), "notes.txt": b"the best one so far"}


def _leave_strangers(folder: str) -> None:
    """Put files of other trainings into the folder of the checkpoint; rank 0 writes them before it saves."""
    if os.environ["RANK"] == "0":
        for name, content in _strangers().items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)


def _strangers_kept(folder: str) -> bool:
    """Return whether those files are unchanged."""
    for name, content in _strangers().items():
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if file.read() != content:
                    return False
        except OSError:
            return False
    return True


def _load_surprise(save: SaveFunction, load: LoadFunction, case: Case, folder: str) -> Seen:
    """Put a file that contains code in the place of the checkpoint and load it."""
    import torch

    path = os.path.join(folder, "model.pt")
    model = _wrap(case["seed"])
    save(model, 1, path)
    with open(path, "wb") as file:
        torch.save({"step": 1, "model": model.module.state_dict(), "surprise": Surprise()}, file)
    os.environ.pop(_FLAG, None)
    _load(load, path, network(1, *_SIZES), {})
    return {"ran": os.environ.pop(_FLAG, None) is not None}


class _Saves:
    """The saves of one process: a checkpoint, and the next one."""

    def __init__(self, save: SaveFunction, case: Case, path: str) -> None:
        self.save, self.case, self.path = save, case, path
        os.makedirs(os.path.dirname(path), exist_ok=True)

    def first(self) -> None:
        """Save in a process that has its own group by now."""
        self.model = _wrap(self.case["seed"])
        self.save(self.model, self.case["steps"][0], self.path)

    def second(self) -> None:
        """Save with other weights."""
        self.model.module.load_state_dict(network(self.case["seed"] + 1, *_SIZES).state_dict())
        self.save(self.model, self.case["steps"][1], self.path)


def _kill_while_saving(save: SaveFunction, load: LoadFunction, case: Case, folder: str) -> Seen:
    """Kill processes that save the second checkpoint, each at another place, and load what is left."""
    gc.collect()
    without_group()  # a forked process could not use it
    dry = _Saves(save, case, os.path.join(folder, "dry", "model.pt"))
    killed: list[tuple[str, str, int, int, str]] = []
    places = killing.places_of(dry.first, dry.second, folder)
    for place, (kind, name) in enumerate(places) if places else [(killing.ANYWHERE, ("write", "unknown"))]:
        for size in (0, case["bytes"]) if kind == "write" else (0,):
            path = os.path.join(folder, f"{place}-{size}", "model.pt")
            saves = _Saves(save, case, path)
            if killing.killed_at(saves.first, saves.second, folder, place, size):
                killed.append((kind, name, size, place, path))
    killing.own_group()
    known = {"empty": (-1, numbers(network(1, *_SIZES).parameters()))}
    for number, name in enumerate(("old", "new")):
        known[name] = (case["steps"][number], numbers(network(case["seed"] + number, *_SIZES).parameters()))
    return {
        "unkilled": _load(load, dry.path, network(1, *_SIZES), known),
        "kills": [
            Kill(
                kind=kind,
                name=name,
                size=size,
                place=place,
                loaded=_load(load, path, network(1, *_SIZES), known),
            )
            for kind, name, size, place, path in killed
        ],
    }


def _in_words(loaded: Loaded) -> str:
    """Describe the result of a load."""
    if loaded is None:
        return "finds nothing"
    if isinstance(loaded, str):
        return f"raised {loaded.splitlines()[0][:90].rstrip(': ')}"
    step, weights = loaded
    kept = "the weights that the model had before" if weights == "empty" else f"the {weights} weights"
    return f"gives the {step} step number with {'no known weights' if weights == 'none' else kept}"


def _by_names(loaded: Loaded) -> str | None:
    """Return the misconception about names that gives this."""
    if isinstance(loaded, str) and "state_dict" in loaded and "module." in loaded:
        return "prefix_kept"
    return "not_strict" if isinstance(loaded, list) and loaded[1] == "empty" else None


def _why(trial: ThisTrial, rank: int, loaded: Loaded, how: str, number: int) -> str | None:
    if rank and trial.seen[0]["loads"][number][how] == ["new", "new"]:
        found = isinstance(loaded, list) and "new" in loaded  # the file was there; load has not done its work
        return None if found else "leaves_early"
    return _by_names(loaded)


def _lost(kill: Kill) -> str | None:
    """Return the misconception that a kill has revealed."""
    by_names, loaded = _by_names(kill["loaded"]), kill["loaded"]
    if by_names:
        return by_names
    if isinstance(loaded, list):
        return "two_files" if set(loaded) == {"old", "new"} else None
    if kill["kind"] == "move" or kill["name"] != "model.pt":
        return "removed_first"
    return "copied_over" if kill["place"] else "in_place"
