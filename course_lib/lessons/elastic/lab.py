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
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from course_lib.lab.explorer import Explorer, buttons, explore
from course_lib.lessons.elastic.accidents import LOG, MACHINE, note
from course_lib.tasks.launching import become_a_process, end_those_that_have_returned, leave, run_as_main
from realranks.draw import Bar, Drawing, Lane, lanes
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
    started anew, so that nobody has to import torch. The store at the line's endpoint is that of this rank's gang.

    Args:
        number: how many machines there are.
    """
    import multiprocessing

    os.chdir(folder)
    store = "{MASTER_ADDR}:{MASTER_PORT}".format(**os.environ)
    words = shlex.split(line.replace("localhost:29400", store))
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

#: What the job does from one moment to the next, and how it looks.
_STAIRS = (
    ("steps", "good"),
    ("a worker is dead, not noticed yet", "waiting"),
    ("rendezvous of the agents", "waiting"),
    ("new workers: import, group, load", "waiting"),
    ("steps since the checkpoint, again", "odd"),
    ("new steps", "good"),
)
#: How many steps before the kill are drawn.
_BEFORE = 3


def one_failure(folder: str) -> Drawing:
    """Draw the first kill of a job from its log: one stair after the other, with its seconds."""
    moments = _moments(log_of(folder))
    stairs = [
        Lane(name, ((Bar(begin - moments[0], end - begin, look, hint=f"{end - begin:.1f} s"),),))
        for (name, look), (begin, end) in zip(_STAIRS, pairwise(moments), strict=True)
    ]
    lost, meeting = moments[4] - moments[1], moments[3] - moments[2]
    return lanes(
        stairs,
        title="One worker fails",
        alt="Stairs: " + ", ".join(name for name, _ in _STAIRS) + ".",
        legend={"waiting": "nobody trains"},
        unit="seconds",
        note=f"nobody trains for {lost:.1f} s, {meeting:.1f} s of them in the rendezvous",
    )


def _moments(notes: Sequence[Note]) -> list[float]:
    """Return when each stair around the first kill begins, and when the last one ends, for the slowest machine."""
    kill = next(one for one in notes if one["event"] == "kill")

    def last(event: str, since: float, step: int | None = None) -> float:
        """Return when every machine has noted this once since then."""
        found: dict[int, float] = {}
        for one in notes:
            if one["event"] == event and one["time"] >= since and step in (None, one.get("step")):
                found.setdefault(one["machine"], one["time"])
        return max(found.values())

    moments = [last("step", 0, kill["step"] - _BEFORE), kill["time"]]
    for event in ("meet", "met", "ready"):
        moments.append(last(event, moments[-1]))
    again = last("step", moments[-1], kill["step"] - 1)
    return [*moments, again, last("step", again, kill["step"] + _BEFORE - 1)]


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
