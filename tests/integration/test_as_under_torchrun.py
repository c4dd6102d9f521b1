"""What a process finds when it begins: under torchrun, under `observe()`, run by the doctor, and in a cell.

Every difference from a plain torchrun stands in the table of docs/doctor.md with its reason, and nothing else does.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from realranks.ranks.inside.seeds import SEED_VARIABLE
from realranks.scripts.examine import examine
from tests.support.ranks_and_kernels import Ranks

ROOT = Path(__file__).resolve().parents[2]
SIZE = 3
#: Each process writes what it finds into a file of its own. Nothing is imported before it is known what was loaded.
LOOK = """
import sys
loaded = "torch" in sys.modules
import builtins, json, multiprocessing, os, pdb, random, resource, signal, threading
import numpy, torch

def handler(number):
    found = signal.getsignal(number)
    if found is None:
        return "one in C"
    return getattr(found, "__qualname__", None) or signal.Handlers(found).name

umask = os.umask(0)
os.umask(umask)
main = sys.modules["__main__"]
found = {
    "torch.initial_seed()": torch.initial_seed(),
    "torch.rand(1)": torch.rand(1).item(),
    "torch.randperm(20)": torch.randperm(20).tolist(),
    "torch.nn.Linear(2, 1)": torch.nn.Linear(2, 1).weight.tolist(),
    "torch.Generator()": torch.Generator().initial_seed(),
    "random.random()": random.random(),
    "numpy.random.rand()": float(numpy.random.rand()),
    'hash("x")': hash("x"),
    "the order of a set of strings": list({f"name {number}" for number in range(20)}),
    "torch.get_num_threads()": torch.get_num_threads(),
    "torch.get_num_interop_threads()": torch.get_num_interop_threads(),
    "torch is loaded at the beginning": loaded,
    "multiprocessing.get_start_method()": multiprocessing.get_start_method(allow_none=True),
    "os.umask()": umask,
    "os.getcwd()": os.getcwd(),
    "os.getpriority()": os.getpriority(os.PRIO_PROCESS, 0),
    "os.sched_getscheduler()": os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else 0,
    "resource.getrlimit()": [resource.getrlimit(getattr(resource, "RLIMIT_" + n)) for n in ("AS", "CORE", "NOFILE")],
    "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "standard input is empty": os.path.samestat(os.fstat(0), os.stat(os.devnull)),
    "sys.argv": sys.argv,
    "sys.flags": list(sys.flags),
    "sys.path[0]": sys.path[0],
    "sys.path": sys.path,
    "sys.stdout": [sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering],
    "threading.enumerate()": sorted(thread.name for thread in threading.enumerate()),
    "__name__": __name__,
    "__file__": globals().get("__file__"),
    "__spec__": repr(globals().get("__spec__")),
    "sys.modules['__main__'] is this": main.__dict__ is globals(),
    "input()": type(builtins.input).__name__,
    "breakpoint()": pdb.Pdb.set_trace.__module__,
}
found |= {number.name: handler(number) for number in signal.Signals}
found |= {name: value for name, value in os.environ.items() if name not in json.loads(os.environ["BEFORE"])}
with open(os.path.join(os.environ["FACTS"], os.environ["RANK"]), "w") as file:
    json.dump(found, file)
"""
WATCHED = """
import course_lib
with course_lib.observe():
    exec(compile(open("look.py").read(), "look.py", "exec"))
"""
#: Of these it is compared whether ranks find the same: nobody can foresee the values.
BY_CHANCE = {
    "torch.initial_seed()",
    "torch.rand(1)",
    "torch.randperm(20)",
    "torch.nn.Linear(2, 1)",
    "random.random()",
    "numpy.random.rand()",
    'hash("x")',
    "the order of a set of strings",
    "MASTER_PORT",
    "TORCHELASTIC_ERROR_FILE",
}

Found = dict[int, dict[str, Any]]


def told() -> dict[str, set[str]]:
    """The facts of the table by the place where they are different."""
    places: dict[str, set[str]] = {"doctor": set(), "cells": set(), "graded scripts": set(), "observe": set()}
    page = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
    for names, where in re.findall(r"^\| (`.+?`) \| ([a-z, ]+) \|", page, re.MULTILINE):
        for place in where.split(", "):
            places[place] |= set(re.findall(r"`([^`]+)`", names))
    return places


#: A job in the background of a shell ignores these, and torchrun passes that on.
IGNORED = {name for name in ("SIGHUP", "SIGQUIT") if signal.getsignal(signal.Signals[name]) is signal.SIG_IGN}


def different(theirs: Found, ours: Found, among: set[str] | None = None) -> set[str]:
    """The facts in which ranks of ours find something else than torchrun's."""
    names = among or {name for found in (*theirs.values(), *ours.values()) for name in found} - IGNORED
    return {name for name in names if _seen(name, theirs) != _seen(name, ours)}


def _seen(name: str, found: Found) -> object:
    values = [found[rank].get(name) for rank in range(SIZE)]
    if name in BY_CHANCE:
        return [value is None for value in values], len({str(value) for value in values})
    return values


def collected(folder: Path) -> Found:
    return {rank: json.loads((folder / str(rank)).read_text(encoding="utf-8")) for rank in range(SIZE)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """What ranks find, by the place where they are run."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "look.py").write_text(LOOK, encoding="utf-8")
    (folder / "watched.py").write_text(WATCHED, encoding="utf-8")
    (folder / "answers").write_text("nobody", encoding="utf-8")
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", SEED_VARIABLE)
    }
    environment |= {"BEFORE": json.dumps([*environment, "BEFORE", "FACTS"])}
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as beside:
        patch.chdir(folder)
        patch.delenv("PYTHONPATH", raising=False)
        patch.delenv(SEED_VARIABLE, raising=False)
        patch.setenv("BEFORE", environment["BEFORE"])

        def place(name: str) -> Path:
            (folder / name).mkdir()
            return folder / name

        def torchrun(script: str, into: Path) -> None:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
            command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={SIZE}"]
            with (folder / "answers").open() as answers:
                subprocess.run(
                    [*command, f"--master-port={port}", script],
                    env={**environment, "FACTS": str(into)},
                    stdin=answers,
                    capture_output=True,
                    check=True,
                    timeout=120,
                )

        def by_torchrun() -> dict[str, Found]:
            plain, watched = place("plain"), place("watched")
            torchrun(str(folder / "look.py"), plain)
            torchrun(str(folder / "watched.py"), watched)
            return {"torchrun": collected(plain), "observe": collected(watched)}

        theirs = beside.submit(by_torchrun)
        places: dict[str, Found] = {}
        patch.setenv("FACTS", str(place("doctor")))
        assert examine("look.py", ranks=SIZE, timeout=120).sound
        places["doctor"] = collected(folder / "doctor")
        patch.setenv("FACTS", str(place("cells")))
        ranks = Ranks(SIZE)
        assert ranks(LOOK).ok
        ranks.gang.stop()
        places["cells"] = collected(folder / "cells")
        patch.setenv("FACTS", str(place("graded")))
        one = Ranks(1)
        outcome = one(
            "from pathlib import Path\n"
            "from course_lib.tasks.launching import become_a_process, launch, leave, run_as_main\n"
            "def process():\n"
            "    become_a_process()\n"
            "    run_as_main('look.py', [])\n"
            "    leave(0)\n"
            f"launch(process, ranks={SIZE}, folder=Path('graded').absolute(), seconds=60).ok"
        )
        one.gang.stop()
        assert outcome.values == {0: True}, outcome
        places["graded scripts"] = collected(folder / "graded")
        return {**theirs.result(), **places}


def test_under_torchrun_ranks_draw_different_numbers_and_order_sets_differently(found):
    for name in BY_CHANCE - {"MASTER_PORT", "TORCHELASTIC_ERROR_FILE"}:
        assert len({str(facts[name]) for facts in found["torchrun"].values()}) == SIZE, name


@pytest.mark.parametrize("where", ["doctor", "cells"])
def test_what_a_rank_finds_differs_from_torchrun_only_where_the_page_says_so(found, where):
    assert different(found["torchrun"], found[where]) == told()[where]


def test_observe_changes_what_the_page_says(found):
    here = {"sys.argv", "sys.path[0]", "__file__"}  # it is another script, of the same folder
    assert different(found["torchrun"], found["observe"]) - here == told()["observe"]


def test_the_processes_of_a_graded_script_draw_what_torchruns_draw(found):
    assert different(found["torchrun"], found["graded scripts"], BY_CHANCE) == told()["graded scripts"]


DRAW = "import random, numpy, torch\n(torch.initial_seed(), torch.rand(1).item(), random.random(), numpy.random.rand())"


def drawn(**options: Any) -> list[tuple[float, ...]]:
    ranks = Ranks(2, **options)
    values = ranks(DRAW).values
    ranks.gang.stop()
    return [values[0], values[1]]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_fixed_seed_is_the_same_in_every_gang_and_another_on_each_rank(method):
    first, again = (drawn(environment={SEED_VARIABLE: "7"}, method=method) for _ in range(2))
    assert first == again
    assert [numbers[0] for numbers in first] == [7, 8]
    assert all(a != b for a, b in zip(*first, strict=True))


def test_a_new_gang_draws_new_numbers():
    mine = Ranks(2, environment={SEED_VARIABLE: ""})
    before = mine(DRAW).values
    mine.gang = mine.gang.restarted()
    after = mine(DRAW).values
    mine.gang.stop()
    assert len({numbers for each in (before, after) for values in each.values() for numbers in values}) == 16
