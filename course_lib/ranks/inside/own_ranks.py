"""Scripts that start their ranks themselves: `torch.multiprocessing.spawn`, or one `Process` for each rank.

Used inside a rank. Such a script runs on several ranks here already, so each rank runs the target of one of the
processes that the script would have started; the rest of the script runs on every rank.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from multiprocessing import queues
from multiprocessing.process import BaseProcess
from typing import Any

#: Ranks wait for each other before such a start as long as it takes.
_LONG = timedelta(days=365)
_ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
#: What torchrun sets, and nobody else does.
_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE")


class SpawnError(RuntimeError):
    """The script starts another number of processes than there are ranks."""


class OwnRanks:
    """What a script starts on this rank instead of processes; `folder` is the script's."""

    def __init__(self, folder: str) -> None:
        self.rank, self.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.playing = False
        self._folder = os.path.realpath(folder)
        self._here = {name: os.environ.get(name) for name in _ADDRESS}
        self._meetings = self._plays = 0
        self._started: list[Any] = []
        self._queues: list[_SharedQueue] = []
        #: How Python starts a process.
        self.really_start = BaseProcess.start

    def take_part(self) -> None:
        """From now on what the script starts as ranks is played here."""
        import torch.distributed
        import torch.multiprocessing

        # The module: torch.distributed.rendezvous is a function of it.
        self._rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
        self._make_store = self._rendezvous._create_c10d_store
        torch.multiprocessing.spawn = self._spawn
        BaseProcess.start = lambda process: self._start(process)  # type: ignore[method-assign,assignment]

    def play(self) -> None:
        """Take this rank's part among the processes that the script has started, and not yet waited for.

        Raises:
            SpawnError: there are more or fewer of them than ranks.
        """
        processes, self._started = self._started, []
        if len(processes) == 1 < self.world_size:
            processes[0].become_real()  # one is no set of ranks
        elif processes:
            self._check_number(len(processes), "multiprocessing.Process")
            shared, self._queues = self._queues, []
            self._play(
                lambda values: _run_with(processes[self.rank], values[self.rank]),
                [[*each._args, *each._kwargs.values()] for each in processes],
            )
            for puts in self._exchange([queue.mine for queue in shared]) if shared else ():
                for queue, items in zip(shared, puts, strict=True):
                    queue.everybodys += items

    # -- spawn ---------------------------------------------------------------------------------------------------

    def _spawn(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        nprocs: int = 1,
        join: bool = True,
        *_: Any,
        **__: Any,
    ) -> _Ended | None:
        self._check_number(nprocs, "torch.multiprocessing.spawn")
        self._play(lambda values: fn(self.rank, *values[0]), [list(args)])
        return None if join else _Ended()

    def _check_number(self, number: int, how: str) -> None:
        if number == self.world_size:
            return
        processes = "1 process" if number == 1 else f"{number} processes"
        raise SpawnError(
            f"this script starts {processes} itself ({how}), and runs on {self.world_size} ranks here: "
            f"give --ranks {number}"
            if number > 0
            else f"this script starts 0 processes itself ({how}): it counts GPUs, and there are none"
        )

    # -- one Process for each rank -------------------------------------------------------------------------------

    def _start(self, process: Any) -> None:
        if self.playing or not self._is_rank(process, len(self._started)):
            self.really_start(process)
            return
        for value in (*process._args, *process._kwargs.values()):
            if isinstance(value, (queues.Queue, queues.SimpleQueue)) and "get" not in vars(value):
                self._queues.append(_SharedQueue(self, value))
        self._started.append(process)
        process.__class__ = _part(type(process), self)

    def _is_rank(self, process: Any, index: int) -> bool:
        """Whether the script means this to be its rank `index`.

        That is code of the script's own which comes to init_process_group, started before there is a process group, and
        told the number.
        """
        import torch.distributed

        told = [*process._args, *process._kwargs.values()]
        code = [process._target or type(process), *told]
        while isinstance(code[0], functools.partial):
            whole = code[0]
            told += [*whole.args, *whole.keywords.values()]
            code = [whole.func, *told]
        told += [value for name, value in vars(process).items() if not name.startswith("_")]
        knows = any(type(value) is int and value == index for value in told)
        early = not torch.distributed.is_initialized()
        return knows and early and self._is_own(code[0]) and self._makes_a_group(code)

    def _makes_a_group(self, code: list[Any]) -> bool:
        """Whether init_process_group is named in these functions and classes, or in those of the script they name."""
        seen: list[Any] = []
        for one in code:
            one = getattr(one, "__func__", one)
            if any(one is each for each in seen):
                continue
            seen.append(one)
            if isinstance(one, type) and self._is_own(one):
                code += vars(one).values()
            elif isinstance(one, types.FunctionType) and self._is_own(one):
                names = set(_names(one.__code__))
                if "init_process_group" in names:
                    return True
                code += [one.__globals__[name] for name in names if name in one.__globals__]
        return False

    def _is_own(self, code: Any) -> bool:
        file = getattr(sys.modules.get(str(getattr(code, "__module__", ""))), "__file__", None) or ""
        return os.path.realpath(file).startswith(os.path.join(self._folder, ""))

    # -- both ----------------------------------------------------------------------------------------------------

    def _play(self, body: Callable[[Any], Any], values: list[list[Any]]) -> None:
        """Run a part in the environment that a process of its own would have.

        Args:
            values: what the processes are given: a list for each, or one for all of them.
        """
        import torch.distributed

        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()  # the process of the start before has ended with its group
        self._with_keys_of_their_own()
        parents = dict(os.environ)
        for name in _BY_TORCHRUN:
            os.environ.pop(name, None)
        # The port stays only where the script has set one itself. The address stays: it is often set to what it is.
        chosen = {name: os.environ.pop(name) for name in _ADDRESS if name in os.environ}
        if chosen.get("MASTER_PORT") == self._here["MASTER_PORT"]:
            chosen.pop("MASTER_PORT", None)
        # The part before this has run on every rank: what it chose at random (a free port) counts on rank 0 only.
        content = [chosen, *itertools.chain(*values)]
        rank_0s = self._exchange([_pickled(value) for value in content] if self.rank == 0 else [])[0]
        if self.rank and len(rank_0s) == len(content):
            content = [_unpickled(*pair) for pair in zip(rank_0s, content, strict=True)]
        chosen, *flat = content
        rest = iter(flat)
        os.environ.update(chosen)
        self.playing = True
        try:
            body([list(itertools.islice(rest, len(each))) for each in values])
        finally:
            self.playing = False
        # What a process does to its environment ends with it.
        os.environ.clear()
        os.environ.update(parents)

    def _with_keys_of_their_own(self) -> None:
        """Where a start before used the same port, its store is still there: gloo holds on to it."""
        import torch.distributed

        name = f"start {self._plays}"

        def store(*arguments: Any, **options: Any) -> Any:
            return torch.distributed.PrefixStore(name, self._make_store(*arguments, **options))

        if self._plays:
            self._rendezvous._create_c10d_store = store
        self._plays += 1

    def _exchange(self, mine: Any) -> list[Any]:
        """What each rank has, through the gang's own store. Comes back when all ranks have come."""
        from torch.distributed import TCPStore

        address, port = self._here["MASTER_ADDR"] or "127.0.0.1", int(self._here["MASTER_PORT"] or 0)
        store = TCPStore(address, port, is_master=False, timeout=_LONG)
        keys = [f"course/own_ranks/{self._meetings}/{rank}" for rank in range(self.world_size)]
        self._meetings += 1
        blob: Any = _pickled(mine) or b""
        store.set(keys[self.rank], blob)
        store.wait(keys)
        return [_unpickled(store.get(key), []) for key in keys]


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that a function uses, and those of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _pickled(value: Any) -> bytes | None:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(value))
    except Exception:
        return None


def _unpickled(blob: bytes | None, otherwise: Any) -> Any:
    import cloudpickle

    return cloudpickle.loads(blob) if blob else otherwise


def _run_with(process: Any, values: list[Any]) -> None:
    """What the process would do, with these values as its arguments."""
    count = len(process._args)
    process._args, process._kwargs = (
        tuple(values[:count]),
        dict(zip(process._kwargs, values[count:], strict=True)),
    )
    process.run()


class _SharedQueue:
    """A queue of the parent's: what the ranks put into it in their parts, each parent finds, of all ranks."""

    def __init__(self, ranks: OwnRanks, queue: Any) -> None:
        self.mine: list[Any] = []
        self.everybodys: list[Any] = []
        put, get, empty = queue.put, queue.get, queue.empty

        def shared_put(item: Any, *arguments: Any, **options: Any) -> None:
            if ranks.playing:
                self.mine.append(item)
            else:
                put(item, *arguments, **options)

        def shared_get(*arguments: Any, **options: Any) -> Any:
            return get(*arguments, **options) if nothing_left() else self.everybodys.pop(0)

        def nothing_left() -> bool:
            if not ranks.playing:
                ranks.play()
            return ranks.playing or not self.everybodys

        queue.put, queue.get, queue.empty = shared_put, shared_get, lambda: nothing_left() and empty()


def _part(kind: type[Any], ranks: OwnRanks) -> type[Any]:
    """What a process is whose part is played here: a class like its own that starts nothing."""

    class Part(kind):  # type: ignore[misc]
        def become_real(self) -> None:
            self.__class__ = kind
            ranks.really_start(self)

        def _real(self) -> Any:
            """This process where it has turned out to be one; otherwise its part has been played when this returns."""
            ranks.play()
            return self if type(self) is kind else None

        def join(self, timeout: float | None = None) -> None:
            if real := self._real():
                real.join(timeout)

        def is_alive(self) -> bool:
            return bool((real := self._real()) and real.is_alive())

        def terminate(self) -> None:
            if real := self._real():
                real.terminate()

        kill = close = terminate

        @property
        def exitcode(self) -> int | None:
            return real.exitcode if (real := self._real()) else 0

        @property
        def pid(self) -> int | None:
            return os.getpid()

        ident = pid

        @property
        def sentinel(self) -> int:
            if real := self._real():
                return int(real.sentinel)
            readable, written = os.pipe()
            os.close(written)
            return readable

    Part.__name__, Part.__qualname__, Part.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Part


class _Ended:
    """What `spawn(join=False)` gives: processes that have ended."""

    processes: Sequence[BaseProcess] = ()

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """All have ended."""
        return True

    def pids(self) -> list[int]:
        """There are none."""
        return []
