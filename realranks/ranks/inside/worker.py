"""The main thread of a rank: take a job, run the learner's code, say what came of it.

State lives here as long as the rank does: the namespace of the learner's `__main__`. Everything that reaches the
kernel goes through `protocol`, except output, which the learner's code writes to the real file descriptors 1 and 2.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import io
import os
import pdb  # noqa: T100 - to refuse it
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from dataclasses import replace

from realranks.outcome.outcome import EXIT_CUT_OFF, Collective, RankError
from realranks.outcome.packed import NotSent
from realranks.outcome.syntax import compile_cell, from_bytes, remember_cell
from realranks.ranks.codec import prepare
from realranks.ranks.inside import (
    control_thread,
    flight_recorder,
    groups,
    nccl_recorder,
    process_group,
    self_report,
    values,
)
from realranks.ranks.inside.gpu_fence import finished_on_gpu
from realranks.ranks.inside.pictures import open_figures, png_of
from realranks.ranks.inside.script import run_script
from realranks.ranks.inside.seeds import seed_rank
from realranks.ranks.inside.tracebacks import report_exception, shown
from realranks.ranks.inside.tracing import Tracer
from realranks.ranks.messages import (
    Around,
    Body,
    Call,
    Cell,
    Fetch,
    Fetched,
    JobReply,
    Picture,
    RankJob,
    Ready,
    Rebuild,
    Rebuilt,
    Script,
    Work,
    decode_job,
    encode_message,
    number_of,
)
from realranks.ranks.process import die_with_parent
from realranks.ranks.protocol import MAX_BLOB_BYTES, BlockingChannel, Message
from realranks.ranks.starting import RankConfig

#: A rank has no keyboard. What to do instead depends on what is run.
_NO_INPUT = {
    "cell": "input() has nobody to ask on a rank: ask in a plain cell and send the answer along.",
    "script": "input() has nobody to ask here: give the script its answers as arguments.",
}
_NO_DEBUGGER = {
    "cell": "no debugger works on a rank: nobody can type there. Look at its variables afterwards: run the cell with "
    "--as out, then out['name'] gives a variable by rank, and watch.snapshot(out) says where every rank was.",
    "script": "no debugger works here: nobody can type on a rank. Print what you want to see; each line is passed on "
    "with its rank.",
}


# Here, in the process that forks: it takes some milliseconds, in each rank.
prepare(
    Cell, Call, Script, Fetch, Rebuild, Ready, Picture, JobReply, Fetched, Rebuilt, *control_thread.QUESTIONS
)


class Rank:
    """One rank: its channel to the kernel and the learner's namespace."""

    def __init__(self, channel: BlockingChannel, config: RankConfig) -> None:
        self.channel = channel
        self.config = config
        self.rank = config.rank
        self.pid = os.getpid()
        self.main_thread = threading.get_ident()
        self.in_learners_code = False
        self.job_kind = ""
        self.main = types.ModuleType("__main__")
        self.kept_value: object = None
        self.jobs = control_thread.Jobs()
        self.saved_output = (os.dup(1), os.dup(2))
        self.figures: list[bytes] = []

    # -- life ---------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Answer the kernel until it asks the rank to stop or is gone."""
        signal.signal(signal.SIGINT, self._interrupted)
        self.open_streams()
        self._prepare_main()
        os.register_at_fork(after_in_child=self._forked)
        control_thread.stack_on_signal(self.config.extra_fd)
        control_thread.stack_on_crash(self.config.extra_fd)
        threading.Thread(
            target=control_thread.answer_kernel,
            args=(self.channel, self.jobs, threading.get_ident(), self.config.store_port),
            name="course-answering",
            daemon=True,
        ).start()
        problem = self._start_group()
        self.channel.send(encode_message(Ready(self.rank, self.pid, problem)))
        while True:
            self.jobs.wait()
            job = self.jobs.begin()
            if job is None:
                break
            self._answer(job)
        self._tidy_up()
        return 0

    def _answer(self, message: Message) -> None:
        self.job_kind = message.kind
        try:
            reply = self._reply(decode_job(message))
        except KeyboardInterrupt as error:
            # The interrupt came between the learner's code and ours.
            reply = JobReply(error=report_exception(error))
        if os.getpid() != self.pid:
            # A process the learner's code forked came out of the cell: it is not a rank and must not answer for one.
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(0)
        try:
            self.channel.send(encode_message(reply, number_of(message)))
        except Exception:
            # The wire is closed, or the learner's code has replaced what Python itself provides.
            control_thread.leave(EXIT_CUT_OFF)

    def _reply(self, job: RankJob) -> Body:
        match job:
            case Cell():
                return self._cell(job)
            case Call():
                return self._call(job)
            case Script():
                return self._run_learners(job, lambda: run_script(self.main, job.path, job.arguments))
            case Fetch():
                return self._fetch(job)
            case Rebuild():
                return self._rebuild(job)

    def _tidy_up(self) -> None:
        # Files the learner left open are flushed; gloo's destructors are not risked: the caller ends with os._exit.
        with contextlib.suppress(BaseException):
            self.main.__dict__.clear()
            gc.collect(0)
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()

    def _interrupted(self, *_: object) -> None:
        if self.in_learners_code:
            raise KeyboardInterrupt

    def _forked(self) -> None:
        self.channel.sock.close()
        # The system counts the forking *thread* as the parent: a child of a helper thread would die with that.
        if threading.get_ident() == self.main_thread:
            die_with_parent()

    def open_streams(self) -> None:
        """Reopen standard output and error as text files over descriptors 1 and 2, whatever state they are in."""
        for fd, saved in enumerate(self.saved_output, start=1):
            try:
                alive = os.fstat(fd).st_ino == os.fstat(saved).st_ino
            except OSError:
                alive = False
            if not alive:
                os.dup2(saved, fd)
        for fd, name in ((1, "stdout"), (2, "stderr")):
            if not _is_open(getattr(sys, name, None)):
                replacement = _RankStream(fd)
                setattr(sys, name, replacement)
                setattr(sys, f"__{name}__", replacement)

    def _prepare_main(self) -> None:
        self.main.__dict__.update(__name__="__main__", __builtins__=builtins, display=self.display)
        sys.modules["__main__"] = self.main
        sys.argv = [""]

        def no_input(prompt: object = "", /) -> str:
            raise RuntimeError(_NO_INPUT.get(self.job_kind, _NO_INPUT["cell"]))

        def no_debugger(*_: object, **__: object) -> None:
            raise RuntimeError(_NO_DEBUGGER.get(self.job_kind, _NO_DEBUGGER["cell"]))

        builtins.input = no_input
        # breakpoint(), pdb.set_trace() and torch.distributed.breakpoint() all come through here, at their line.
        pdb.Pdb.set_trace = no_debugger  # type: ignore[method-assign]
        # Figures drawn on a rank are sent to the notebook.
        os.environ["MPLBACKEND"] = "module://realranks.ranks.inside.figures"

    def _start_group(self) -> RankError | None:
        try:
            process_group.make_thread_pool()
            process_group.RENDEZVOUS.install()
            if self.config.init:
                if self.config.gpu is not None:
                    process_group.take_gpu(self.config.gpu)
                process_group.start_group(self.config.backend, self._eager_gpu())
        except Exception as error:
            return report_exception(error)
        return None

    def _eager_gpu(self) -> int | None:
        """Return the GPU that the process group is to connect at once, if any."""
        return self.config.gpu if self.config.eager else None

    # -- jobs ---------------------------------------------------------------------------------------------------

    def display(self, *things: object) -> None:
        """Show objects in the notebook: figures as pictures, the rest as text."""
        for thing in things:
            savefig = getattr(thing, "savefig", None)
            if savefig is not None:
                self._show_picture(png_of(savefig))
            else:
                print(shown(thing))

    def _show_picture(self, png: bytes) -> None:
        self.channel.send(encode_message(Picture(png)))

    def _cell(self, job: Cell) -> JobReply:
        space = self.main.__dict__

        def body() -> object:
            source = (job.source, job.label, job.first_line)
            compiled = from_bytes(job.code) if job.code else compile_cell(*source)
            remember_cell(*source)
            exec(compiled.statements, space)
            if compiled.value is not None:
                return eval(compiled.value, space)
            return None

        return self._run_learners(job, body)

    def _call(self, job: Call) -> JobReply:
        import cloudpickle

        never_struck: list[str] = []

        def body() -> object:
            function, arguments, faults = cloudpickle.loads(job.payload)
            with contextlib.ExitStack() as stack:
                for fault in faults:
                    stack.enter_context(fault.armed(self.rank, never_struck))
                return function(*arguments)

        done = self._run_learners(job, body)
        return replace(done, never_struck=tuple(never_struck))

    def _run_learners(self, job: Work, body: Callable[[], object]) -> JobReply:
        self.open_streams()
        self_report.NOTED.clear()  # what an earlier job was asked to note
        started = time.time_ns()
        done, tracer = self._in_learners_code(job, body)
        if job.around is not None:
            facts = done.facts or self_report.facts_of(self.main_thread)
            done = replace(done, facts=facts, records=records_since(started))
        if os.getpid() == self.pid:
            with contextlib.suppress(Exception):
                self.send_open_figures()
            self._flush()
        trace = tuple(tracer.events()) if tracer is not None else ()
        return replace(
            done,
            trace=trace,
            started_ns=started,
            ended_ns=time.time_ns(),
            sequence=sequence_numbers(),
            on_gpu=() if done.gpu_busy else issued_on_gpu(started),
        )

    def _in_learners_code(self, job: Work, body: Callable[[], object]) -> tuple[JobReply, Tracer | None]:
        """Run the learner's code; return the reply and the tracer. Here, and nowhere else, an interrupt raises."""
        done = JobReply()
        tracer: Tracer | None = None
        value = None  # `around` may end the code early
        try:
            try:
                self.in_learners_code = True
                tracer = Tracer() if job.trace else None
                with around(job.around), tracer or contextlib.nullcontext():
                    value = body()
                finished = finished_on_gpu()
                text = None
                if value is not None and isinstance(job, Cell):
                    self.main.__dict__["_"] = value
                    text = shown(value)
                self.kept_value = value
                done = JobReply(shown=text, has_value=value is not None, gpu_busy=not finished)
                blob, not_sent = values.pack(value)  # may call the learner's __reduce__
                done = replace(done, value=blob, not_sent=not_sent)
            finally:
                self.in_learners_code = False
        except BaseException as error:
            self.in_learners_code = False
            done = replace(done, error=report_exception(error))
            with contextlib.suppress(BaseException):  # a class of the learner's may refuse this, and the next
                done = replace(done, facts=self_report.facts_at(error.__traceback__))
            with contextlib.suppress(BaseException):
                error.__traceback__ = None
        return done, tracer

    def _flush(self) -> None:
        for name in ("stdout", "stderr"):
            with contextlib.suppress(BaseException):
                getattr(sys, name).flush()

    def send_open_figures(self) -> None:
        """Show the figures that pyplot holds, each once."""
        for png in open_figures():
            self._show_picture(png)

    def _fetch(self, job: Fetch) -> Fetched:
        if job.name is None:
            value, found = self.kept_value, True
        else:
            found = job.name in self.main.__dict__
            value = self.main.__dict__.get(job.name)
        blob, not_sent = b"", None
        if found:
            try:
                seen = value if job.through is None else _function(job.through)(value)
                blob, not_sent = values.pack(seen, limit=MAX_BLOB_BYTES)
            except Exception as error:
                not_sent = NotSent("", f"{type(error).__name__}: {error}")
        return Fetched(found, not_sent, blob)

    def _rebuild(self, job: Rebuild) -> Rebuilt:
        problem = None
        moved = 0
        try:
            moved = process_group.rebuild_group(self.config.backend, self._eager_gpu(), job.epoch)
        except Exception as error:
            problem = report_exception(error)
        return Rebuilt(moved, problem)


def sequence_numbers() -> dict[str, int]:
    """Return the number of the last collective that this rank has issued, by process group."""
    with contextlib.suppress(Exception):
        return groups.sequence_numbers()
    return {}


def records_since(started_ns: int) -> tuple[Collective, ...]:
    """Return the collectives this rank has issued since then, without their lines, which are slow to read."""
    with contextlib.suppress(Exception):
        records = flight_recorder.recorded_collectives(process_group.RENDEZVOUS.since_ns)
        return tuple(Collective.from_record(record) for record in records if record["time_ns"] >= started_ns)
    return ()


def issued_on_gpu(started_ns: int) -> tuple[Collective, ...]:
    """Return the collectives this rank has issued through NCCL since then: NCCL accepts some that do not match."""
    with contextlib.suppress(Exception):
        entries = nccl_recorder.entries(stacks=False)
        return tuple(map(Collective.from_record, flight_recorder.collectives_of(entries, started_ns)))
    return ()


def around(named: Around | None) -> contextlib.AbstractContextManager[object]:
    """Create the named context manager: the way other packages observe what runs on a rank."""
    if named is None:
        return contextlib.nullcontext()
    where, arguments = named
    made = _function(where)(**arguments)
    assert isinstance(made, contextlib.AbstractContextManager)
    return made


def _function(named: str) -> Callable[..., object]:
    """Import the function named `module:function`."""
    module, _, function = named.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), function)
    return found


class _RankStream(io.TextIOWrapper):
    """Line-buffered text over a descriptor; what cannot be encoded is shown escaped instead of raising."""

    def __init__(self, fd: int) -> None:
        super().__init__(
            io.BufferedWriter(io.FileIO(fd, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )


def _is_open(stream: object) -> bool:
    if type(stream) is not _RankStream:
        return False
    try:
        return not stream.closed
    except ValueError:  # its buffer has been detached
        return False


CURRENT: Rank | None = None


def run_rank(fd: int, config: RankConfig) -> int:
    """Be rank `config.rank` of a gang until the kernel says stop; returns the exit code."""
    global CURRENT
    import socket

    for resource_name, limit in config.limits.items():
        import resource

        number = getattr(resource, resource_name)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(number, (limit, limit))
    seed_rank(config.rank)
    CURRENT = Rank(BlockingChannel(socket.socket(fileno=fd)), config)
    return CURRENT.run()
