"""Run an answer under torch's elastic agent, with workers that are killed; used inside a rank.

The agent is the one behind `torchrun`, with workers that are forked. It lives in a process of its own, the first of a
process group: whatever an answer does, ending that group ends everything.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from course_lib.lessons.elastic.tasks.toy import batch, make, whole_loss
from realranks.outcome.syntax import CELL_PREFIX

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    Make = Callable[[], tuple[nn.Module, Optimizer]]
    BatchOf = Callable[[int], tuple[Tensor, Tensor]]
    Answer = Callable[[Make, BatchOf, int, int, str], object]

#: Seconds until a job that neither ends nor fails is given up: a way out of a hang, and no measure.
_PATIENCE = 20.0
#: How the names of the files begin that answers may write.
_CHECKPOINT = "checkpoint"


class Case(TypedDict):
    """A job, and what befalls it.

    Attributes:
        workers: how many workers the first two lives have, and how many the last two.
        save_life: the life in which a worker is killed while it saves for the second time.
        kills: the other kills: life, rank and step.
    """

    seed: int
    steps: int
    every: int
    workers: list[int]
    save_life: int
    kills: list[list[int]]


class Note(TypedDict):
    """A line of the workers' log: a `batch`, `save`, `kill`, `error`, `end`, `stub`, or that it was `stuck`."""

    event: str
    life: int
    rank: int
    step: NotRequired[int]
    loss: NotRequired[float]
    text: NotRequired[str]
    name: NotRequired[str]
    saving: NotRequired[bool]
    stray: NotRequired[bool]


def run_job(answer: Answer, case: Case, lives: range, world: int, folder: str) -> bool:
    """Let an agent with `world` workers run the answer, in so many lives at most; the folder's log tells.

    Returns:
        True where the job came to an end, False where it had to be given up.
    """
    process = multiprocessing.get_context("fork").Process(
        target=_agent, args=(answer, case, lives, world, folder)
    )
    # From a thread, because the rendezvous often looks through the stack, which is long here and short there.
    starter = threading.Thread(target=process.start)
    starter.start()
    starter.join()
    try:
        deadline = time.monotonic() + _PATIENCE
        while process.is_alive() and time.monotonic() < deadline and _ended(folder, lives) < world:
            process.join(0.02)
        return not process.is_alive() or _ended(folder, lives) >= world
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()


def read_log(folder: str) -> list[Note]:
    """Return what the workers have noted: one entry for each batch, kill, error and end."""
    try:
        with open(os.path.join(folder, "log"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return []


def _ended(folder: str, lives: range) -> int:
    return sum(note["event"] == "end" and note["life"] in lives for note in read_log(folder))


def _agent(answer: Answer, case: Case, lives: range, world: int, folder: str) -> None:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.setpgid(0, 0)
    said = os.open(os.path.join(folder, "agent"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    for name in ("TORCHELASTIC_USE_AGENT_STORE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=world,
        run_id=f"lives-{lives.start}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="fork",
        max_restarts=len(lives) - 1,
        monitor_interval=0.02,
        logs_specs=DefaultLogsSpecs(log_dir=os.path.join(folder, "logs")),
    )
    elastic_launch(config, _worker)(answer, dict(case), lives.start, folder)


def _worker(answer: Answer, case: Case, first_life: int, folder: str) -> None:
    import torch.distributed as dist

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the agent's, which a fork inherits
    life = first_life + int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    scene = _Scene(case, life, rank, folder)
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/meet-{life}",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=20),
        )
        path = os.path.join(folder, _CHECKPOINT)
        answer(scene.make, scene.batch_of, case["steps"], case["every"], path)
        scene.note("end", loss=whole_loss(scene.net, case["seed"], case["steps"]))
    except BaseException as error:
        stub = type(error).__name__ == "_NotAttempted"
        text = f"{type(error).__name__}: {error}"[:200].rstrip(".") + _place(error)
        scene.note("stub" if stub else "error", text=text, step=scene.step)
        os._exit(1)
    os._exit(0)


def _place(error: BaseException) -> str:
    """Return the learner's own line that led to an error, in brackets."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.startswith(CELL_PREFIX)]
    return f" (line {lines[-1]} of your answer)" if lines else ""


class _Scene:
    """The surroundings of an answer in one life of one worker."""

    def __init__(self, case: Case, life: int, rank: int, folder: str) -> None:
        self.case, self.life, self.rank, self.folder = case, life, rank, folder
        self.net: nn.Module | None = None
        self.step: int | None = None
        self._saves = 0
        self._watch_saving(dies=life == case["save_life"])

    def note(self, event: str, **what: object) -> None:
        """Add a line to the log; what is None is left out."""
        known = {name: value for name, value in what.items() if value is not None}
        line = json.dumps({"event": event, "life": self.life, "rank": self.rank, **known})
        with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def make(self) -> tuple[nn.Module, Optimizer]:
        """Return the network and its optimizer, as they are before the first step."""
        self.net, optimizer = make(self.case["seed"])
        return self.net, optimizer

    def batch_of(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the whole batch of a step; kill where the case wants it."""
        self.step = int(step)
        if [self.life, self.rank, self.step] in self.case["kills"]:
            self._die()
        self.note("batch", step=self.step, loss=whole_loss(self.net, self.case["seed"], self.step))
        return batch(self.case["seed"], self.step)

    def _die(self) -> None:
        self.note("kill", step=self.step)
        os.kill(os.getpid(), signal.SIGKILL)

    def _watch_saving(self, *, dies: bool) -> None:
        """Note saves to files; where asked for, die in the middle of the second."""
        import torch

        save = torch.save

        def half(thing: Any, file: Any, *arguments: Any, **options: Any) -> None:
            self._saves += 1
            self._note_save(file)
            if self._saves < 2 or not dies:
                save(thing, file, *arguments, **options)
                return
            whole = io.BytesIO()
            save(thing, whole, *arguments, **options)
            data = whole.getvalue()[: len(whole.getvalue()) // 2]
            if hasattr(file, "write"):
                file.write(data)
                with contextlib.suppress(Exception):
                    file.flush()
            else:
                with open(file, "wb") as target:
                    target.write(data)
            self.note("kill", step=self.step, saving=True)
            os.kill(os.getpid(), signal.SIGKILL)

        torch.save = half  # type: ignore[assignment]

    def _note_save(self, file: object) -> None:
        name = getattr(file, "name", file)
        if isinstance(name, str | os.PathLike):
            target = os.path.abspath(name)
            stray = not target.startswith(os.path.join(os.path.abspath(self.folder), _CHECKPOINT))
            self.note("save", step=self.step, name=os.path.basename(target)[:80], stray=stray)
