"""Lesson 12: machines that one machine plays, what the jobs on them have noted, its pictures and its predictions."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from course_lib.lab.explorer import Explorer, buttons, explore
from course_lib.lessons.elastic.accidents import LOG, MACHINE, note
from course_lib.tasks.launching import become_a_process, end_those_that_have_returned, leave, run_as_main
from realranks.draw import Arrow, Bar, Box, Drawing, Frame, Lane, LaneDrawing, Stepper, Text, lanes
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome
from realranks.ranks.process import inherit_orphans, outlive_parent

Note = dict[str, Any]
#: What the course itself tells its ranks, and torchrun's workers must not hear.
_NOT_FOR_WORKERS = ("TORCHELASTIC_USE_AGENT_STORE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_SIGNAL = re.compile(r"send (\w+) after (\d+) (\w+)")


# --- jobs ------------------------------------------------------------------------------------------------------------


class Ended(TypedDict):
    """The end of a job.

    Attributes:
        codes: the exit code of torchrun on each machine.
        left_behind: how many workers lived on without their agent, and were then killed.
    """

    codes: list[int | None]
    left_behind: int


def job(scripts: str, *orders: str) -> str:
    """Make a folder with copies of this one's scripts, and with orders for the job (see `order`)."""
    folder = tempfile.mkdtemp(prefix="ddp-job-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for script in Path(scripts).glob("*.py"):
        shutil.copy(script, folder)
    order(folder, *orders)
    return folder


def order(folder: str, *orders: str) -> None:
    """Order what is to happen to a job, by files with such names.

    `kill machine 1 at 7` and others that scripts obey: see `accidents.accident`. `send SIGTERM after 2 ready`: the
    agent of machine 0 gets this signal when the log has two notes `ready`. `machine 1 after checkpoint.pt`: it comes
    when this file is there.
    """
    for words in orders:
        Path(folder, words).touch()


def typed(line: str, folder: str = ".") -> list[str]:
    """Run this line in a shell and return its output, errors too, line by line; runs on a rank."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_WORKERS}
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.splitlines()


def machines(folder: str, line: str, number: int = 1) -> Ended:
    """Play all machines on a rank: each runs in the folder what this line, with torchrun in it, does.

    It is torchrun's own `main` that reads the line and becomes the agent; the workers are forked from it instead of
    started anew, so that nobody has to import torch. `$HEAD` in the line is a store that runs on none of the machines.

    Args:
        number: how many machines there are.
    """
    import multiprocessing

    os.environ["HEAD"] = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
    os.chdir(folder)
    words = shlex.split(os.path.expandvars(line))
    inherit_orphans()
    fork = multiprocessing.get_context("fork")
    agents = [fork.Process(target=_agent, args=(words, machine)) for machine in range(number)]
    for agent in agents:
        # From a thread: the agent looks through its stack for each message of its rendezvous, and here it is long.
        starter = threading.Thread(target=agent.start)
        starter.start()
        starter.join()
    for name in os.listdir():
        if asked := _SIGNAL.fullmatch(name):
            os.unlink(name)
            while len(events(".", asked[3], rank=None)) < int(asked[2]) and agents[0].is_alive():
                time.sleep(0.01)
            os.kill(agents[0].pid or 0, getattr(signal, asked[1]))
    for agent in agents:
        agent.join()
    return {"codes": [agent.exitcode for agent in agents], "left_behind": _end_workers()}


def _end_workers() -> int:
    """Kill the workers that still run, now as children of this process, and count them."""
    found = 0
    for pid in {one["pid"] for one in events(".", "begin", rank=None)}:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                found += 1
    return found


def _agent(words: Sequence[str], machine: int) -> None:
    """Run torchrun's agent of this machine in a process of its own."""
    from torch.distributed import run
    from torch.distributed.elastic.agent.server.api import SimpleElasticAgent
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.setpgid(0, 0)  # agent and workers: what one plug keeps running
    for waits in Path().glob(f"machine {machine} after *"):
        while not os.path.exists(waits.name.rpartition(" ")[2]):
            time.sleep(0.01)
    for name in _NOT_FOR_WORKERS:
        os.environ.pop(name, None)
    os.environ[MACHINE] = str(machine)
    command = words.index("torchrun")
    for name, _, value in (word.partition("=") for word in words[:command]):
        os.environ[name] = value
    said = os.open(f"agent {machine}", os.O_CREAT | os.O_WRONLY)
    os.dup2(said, 1)
    os.dup2(said, 2)
    end_those_that_have_returned()
    meet = SimpleElasticAgent._rendezvous

    def meet_noted(*arguments: Any) -> None:
        note("meet")
        meet(*arguments)
        note("met")

    SimpleElasticAgent._rendezvous = meet_noted  # type: ignore[method-assign]

    def forked(config: LaunchConfig, entrypoint: object) -> elastic_launch:
        config.start_method = "fork"
        return elastic_launch(config, _worker)

    run.elastic_launch = forked  # type: ignore[assignment, misc]
    run.main(words[command + 1 :])


def _worker(_: str, script: str, *arguments: str) -> None:
    """Run a worker in a process of its own, where the agent would start `python -u script`."""
    become_a_process()
    outlive_parent()  # one that is started, not forked, does
    note("begin", restarts=int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
    try:
        run_as_main(script, arguments)
    except BaseException:
        traceback.print_exc()
        leave(1)
    leave(0)


def launched(how: str, workers: int, work: Callable[..., object], *arguments: object) -> object:
    """Let torch's agent call this function in so many processes, started so; runs on a rank.

    Args:
        how: a start method, such as `fork`.

    Returns:
        What the calls returned, by rank; or what an interpreter said that does not find the function.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(1, 1, workers, run_id="cell", rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    config.start_method, config.max_restarts = how, 0
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    found: list[object] = []

    def launch() -> None:
        with contextlib.suppress(ChildFailedError):
            found.append(elastic_launch(config, work)(*arguments))

    with tempfile.TemporaryFile("w+") as said:
        screen = os.dup(2)
        os.dup2(said.fileno(), 2)
        thread = threading.Thread(target=launch)  # with a short stack, as above
        thread.start()
        thread.join()
        os.dup2(screen, 2)
        said.seek(0)
        return found[0] if found else re.findall(r"AttributeError: .*?(?= on )", said.read())[0]


# --- what a job has noted --------------------------------------------------------------------------------------------


def log_of(folder: str) -> list[Note]:
    """Return what has been noted, in the order of time."""
    path = Path(folder, LOG)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def events(folder: str, kind: str, rank: int | None = 0) -> list[Note]:
    """Return the notes of one kind that one rank has made; of all ranks with rank=None."""
    return [one for one in log_of(folder) if one["event"] == kind and rank in (None, one["rank"])]


def processes(folder: str, machine: int) -> int:
    """Count the worker processes that this machine has had."""
    return len({one["pid"] for one in events(folder, "begin", rank=None) if one["machine"] == machine})


def losses(folder: str) -> dict[int, float]:
    """Return, by step, the loss of the last time that it was made."""
    return {one["step"]: one["loss"] for one in events(folder, "step")}


def steps_again(folder: str) -> list[int]:
    """Return, for each kill, how many steps had to be repeated."""
    was = [one["step"] for one in events(folder, "kill", rank=None)]
    began = [one["step"] for one in events(folder, "ready")][1:]
    return [step - again for step, again in zip(was, began, strict=True)]


def second_life(folder: str) -> list[str]:
    """Return the errors of rank 0 in its second life."""
    return [one["text"] for one in events(folder, "error") if one["life"]]


# --- the time line of one failure ------------------------------------------------------------------------------------

_LEGEND = {
    "good": "steps for the first time",
    "bad": "a worker is dead, not noticed yet",
    "waiting": "rendezvous of the agents",
    "communication": "new workers: script, group, checkpoint",
    "odd": "steps once more",
}
#: How many steps before the kill are drawn.
_BEFORE = 3
_OLD, _NEW = "its first process", "its second process"


def one_failure(folder: str) -> Stepper:
    """Draw the first kill of a job on two machines from the log: lanes of machines, and contents of stores."""
    frames = tuple(_failure_frames(folder))
    return Stepper(
        frames, "One failure, from the last steps before it to the first new one", matter=(1, 2, 5, 7)
    )


def _failure_frames(folder: str) -> Iterator[Frame]:
    moments = {machine: _moments(folder, machine) for machine in (0, 1)}
    picture = _failure_lanes(moments)
    zero = moments[0]["train"]
    slow = {name: max(one[name] for one in moments.values()) - zero for name in moments[0]}
    alive, dead, none = ("good", _OLD), ("bad", f"{_OLD}, dead"), ("", "nothing")
    new = ("good", _NEW)
    for at, said, shared, own in (
        (0.0, "Two workers train, one on each machine.", (alive, alive), (alive, alive)),
        (
            slow["kill"],
            "Machine 1's worker is killed. The other one cannot finish its step.",
            (alive, dead),
            (alive, dead),
        ),
        (
            slow["meet"],
            "Agents look ten times a second. One worker is dead, the other has raised. A store in rank 0 is gone, too.",
            (dead, dead),
            (none, none),
        ),
        (
            (slow["meet"] + slow["met"]) / 2,
            "The agents meet. One that waits there looks once a second whether the others have come.",
            (dead, dead),
            (none, none),
        ),
        (
            slow["met"],
            "New workers start. By default they use the old store. With the variable, rank 0 opens a new one.",
            (dead, dead),
            (none, none),
        ),
        (
            (slow["met"] + slow["ready"]) / 2,
            "Say that rank 0 is first, and reads rank 1's address. In the old store it finds a dead one's.",
            (new, dead),
            (new, none),
        ),
        (
            slow["ready"],
            "Both have written, and are in a group. Each loads the checkpoint.",
            (new, new),
            (new, new),
        ),
        (slow["regained"], "The steps since the checkpoint are done once more.", (new, new), (new, new)),
        (slow["end"], "And the job goes on.", (new, new), (new, new)),
    ):
        yield Frame(_with_stores(picture, at, shared, own), said)


def _moments(folder: str, machine: int) -> dict[str, float]:
    """Return when each event around the first kill of the job happened on this machine."""
    notes = log_of(folder)
    kill = next(one for one in notes if one["event"] == "kill")
    own = [one for one in notes if one["machine"] == machine]

    def first(event: str, since: float, step: int | None = None) -> float:
        return float(
            next(
                one["time"]
                for one in own
                if one["event"] == event and one["time"] >= since and step in (None, one.get("step"))
            )
        )

    found = {"train": first("step", 0, kill["step"] - _BEFORE), "kill": kill["time"]}
    for name in ("meet", "met", "ready"):
        found[name] = first(name, max(found.values()))
    found["regained"] = first("step", found["ready"], kill["step"] - 1)
    found["end"] = first("step", found["ready"], kill["step"] + _BEFORE)
    return found


def _failure_lanes(moments: Mapping[int, Mapping[str, float]]) -> LaneDrawing:
    zero = min(one["train"] for one in moments.values())
    found = []
    for machine, one in moments.items():
        times = list(one.values())
        looks = ("good", *list(_LEGEND)[1:], "good")
        bars = (
            Bar(begin - zero, end - begin, look)
            for begin, end, look in zip(times, times[1:], looks, strict=False)
        )
        found.append(Lane(f"machine {machine}", (tuple(bars),)))
    lost = max(one["ready"] for one in moments.values()) - moments[0]["kill"]
    meeting = max(one["met"] - one["meet"] for one in moments.values())
    return lanes(
        found,
        title="One kill of a worker on machine 1",
        alt="A lane for each of two machines: steps, a worker that is dead and not noticed, the rendezvous, new "
        "workers that start, steps done once more, new steps.",
        legend=_LEGEND,
        unit="seconds",
        note=f"nobody trains for {lost:.1f} s, {meeting:.1f} s of them in the rendezvous",
    )


def _with_stores(
    picture: LaneDrawing, at: float, shared: Sequence[tuple[str, str]], own: Sequence[tuple[str, str]]
) -> Drawing:
    """Draw the lanes with a line at this moment, and below them what two kinds of store then hold."""
    x = picture.left + at * picture.scale
    shapes: list[Shape] = [*picture.shapes, Arrow(x, 0, x, picture.floor - 26, 2.5, plain=True)]
    y = picture.height + 6
    for words, addresses in (
        ("the store in an agent (default), address of", shared),
        ("a store for each gang (with the variable), address of", own),
    ):
        shapes.append(Text(16, y + 18, words, 12))
        for rank, (look, whose) in enumerate(addresses):
            shapes.append(
                Box(340 + rank * 210, y, 204, 26, look, f"rank {rank}: {whose}", dashed=not look, size=11)
            )
        y += 32
    return Drawing(picture.width, y + 4, tuple(shapes), picture.alt, picture.title, picture.note)


# --- how often to save -----------------------------------------------------------------------------------------------

#: Llama 3's pre-training: 419 unexpected interruptions of 16,384 GPUs in 54 days (Grattafiori et al., 2024, 3.3.4).
ONE_GPU = 54 * 24 * 3600 * 16_384 / 419
_FACTORS = (0.25, 0.5, 1, 2, 4)


def best_interval(save: float, between: float) -> float:
    """Return Young's interval in seconds, for saves of `save` seconds and a failure every `between`."""
    return float((2 * save * between) ** 0.5)


def loss(interval: float, save: float, restart: float, between: float) -> tuple[float, float, float]:
    """Return the seconds lost per second of training: by saving, by repeating steps, by restarts."""
    return save / interval, interval / 2 / between, restart / between


def replayed(interval: float, save: float, restart: float, between: float, failures: int = 3000) -> float:
    """Replay a made-up history (train, save, fail, repeat, restart) and return the seconds lost per second."""
    import random

    chance = random.Random(0)
    useful = spent = 0.0
    for _ in range(failures):
        until = chance.expovariate(1 / between)
        useful += until // (interval + save) * interval
        spent += until + restart
    return spent / useful - 1 if useful else float("inf")


def draw_intervals(save: float, restart: float, gpus: int) -> Drawing:
    """Draw a lane for each of five intervals: the loss by saving, by repeating, and by restarts."""
    between = ONE_GPU / gpus
    best = best_interval(save, between)
    found = []
    for factor in _FACTORS:
        parts = [100 * part for part in loss(factor * best, save, restart, between)]
        begins = (0, parts[0], parts[0] + parts[1])
        bars = tuple(
            Bar(begin, part, look, f"{part:.1f}")
            for begin, part, look in zip(begins, parts, ("communication", "odd", "bad"), strict=True)
        )
        history = 100 * replayed(factor * best, save, restart, between)
        beside = (Bar(0, history, "even"),) if history < 1e4 else ()
        found.append(Lane(f"save every {_in_words(factor * best)}", (bars, beside)))
    effective = 1 / (1 + sum(loss(best, save, restart, between)))
    return lanes(
        found,
        title=f"{gpus:,} GPUs, a failure every {_in_words(between)}: save every {_in_words(best)}",
        alt=f"The formula's best interval, a half and a quarter of it, twice and four times as long. With the best one "
        f"{effective:.1%} of the time is training.",
        legend={
            "communication": "saving",
            "odd": "steps again",
            "bad": "restarts",
            "even": "all together, replayed with drawn failures",
        },
        unit="seconds lost in 100 seconds of training",
        note=f"effective: {effective:.1%}",
    )


def _in_words(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s"


def explore_intervals() -> Explorer:
    """Return controls for what a save and a restart cost, and how many GPUs there are: what is lost by interval."""
    return explore(
        lambda gpus, save, restart: draw_intervals(save, restart, gpus),
        "seconds that a save and a restart take, and the number of GPUs",
        "the slowest save with which 16,384 GPUs and a restart of ten minutes train for more than 90 % of the "
        "time. By how much does the best interval change with eight times the GPUs? And with another restart?",
        gpus=buttons("GPUs", {f"{number:,}": number for number in (8, 64, 512, 4096, 16_384)}, 16_384),
        save=buttons("a save: s", (1, 15, 60, 300), 60),
        restart=buttons("a restart: s", (10, 60, 300, 600), 600),
    )


# --- what questions ask ----------------------------------------------------------------------------------------------


def steps_in(log: Sequence[str]) -> list[int]:
    """Return the steps that rank 0 has printed, in lines such as `rank 0: step 6`."""
    return [int(step) for step in re.findall(r"rank 0: step (\d+)", "\n".join(log))]


def went_on_with(*step: int) -> Callable[[Outcome], bool]:
    """Predict the step that rank 0 prints next after the kill before step 7; none without an argument."""
    return lambda outcome: tuple(steps_in(outcome.values[0])[7:8]) == step


def did_again(folder: str, count: int) -> Callable[[Outcome], bool]:
    """Predict how many steps were repeated after all kills together."""
    return lambda _: sum(steps_again(folder)) == count


def signals_of(folder: str) -> list[str]:
    """Return the signals that workers have noted."""
    return [str(one["signal"]) for one in events(folder, "got", rank=None)]


def got_a_signal(folder: str) -> Callable[[Outcome], bool]:
    """Predict that every worker has got SIGTERM."""
    return lambda _: set(signals_of(folder)) == {"SIGTERM"}


def got_nothing(folder: str, *, lives_on: bool) -> Callable[[Outcome], bool]:
    """Predict that no worker has got a signal that it could note, and whether they live on without torchrun."""
    return lambda outcome: not signals_of(folder) and bool(outcome.values[0]["left_behind"]) is lives_on


def found_addresses(folder: str, *ranks: str) -> Callable[[Outcome], bool]:
    """Predict of which ranks the store holds an address as rank 0's second life begins."""
    return lambda _: bool(events(folder, "look")[0]["addresses"] == [*ranks])


def went_on_at(folder: str, step: int) -> Callable[[Outcome], bool]:
    """Predict that the job resumed with this step after the first change of its workers."""
    return lambda _: bool(events(folder, "ready")[1]["step"] == step)


def did_all(outcome: Outcome) -> bool:
    """Return whether rank 0 made each of the twelve steps once."""
    return bool(outcome.values[0]["done"] == list(range(12)))


def left_out_step_5(outcome: Outcome) -> bool:
    """Return whether rank 0 did not make the step in which rank 2 died."""
    return 5 not in outcome.values[0]["done"]


def started_again(outcome: Outcome) -> bool:
    """Return whether rank 0 made the first step twice."""
    return bool(outcome.values[0]["done"].count(0) > 1)
