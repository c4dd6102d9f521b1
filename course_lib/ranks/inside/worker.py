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
import queue
import signal
import sys
import threading
import time
import types
from dataclasses import asdict, replace
from typing import Any

from course_lib.ranks.done import Done
from course_lib.ranks.inside import control_thread, self_report, values
from course_lib.ranks.inside.cell import compile_cell, report_exception, shown
from course_lib.ranks.protocol import MAX_BLOB_BYTES, BlockingChannel, Message

#: Nobody can type on a rank. What to do instead depends on what is run.
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


class Rank:
    """One rank: its channel to the kernel and the learner's namespace."""

    def __init__(self, channel: BlockingChannel, config: dict[str, Any]) -> None:
        self.channel = channel
        self.config = config
        self.rank: int = config["rank"]
        self.pid = os.getpid()
        self.main_thread = threading.get_ident()
        self.in_learners_code = False
        self.job_kind = ""
        self.main = types.ModuleType("__main__")
        self.kept_value: Any = None
        self.jobs: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.saved_output = (os.dup(1), os.dup(2))
        self.figures: list[bytes] = []

    # -- life ---------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Answer the kernel until it asks the rank to stop or is gone."""
        signal.signal(signal.SIGINT, self._interrupted)
        self.open_streams()
        self._prepare_main()
        os.register_at_fork(after_in_child=self._forked)
        control_thread.stack_on_signal(self.config["extra_fd"])
        threading.Thread(
            target=control_thread.answer_kernel,
            args=(self.channel, self.jobs, threading.get_ident(), self.config["store_port"]),
            name="course-answering",
            daemon=True,
        ).start()
        problem = self._start_group()
        self.channel.send(Message("ready", {"rank": self.rank, "pid": self.pid, "problem": problem}))
        while True:
            try:
                job = self.jobs.get()
            except KeyboardInterrupt:
                continue
            if job is None:
                break
            self._answer(job)
        self._tidy_up()
        return 0

    def _answer(self, job: Message) -> None:
        self.job_kind = job.kind
        handler = {
            "cell": self._cell,
            "call": self._call,
            "script": self._script,
            "fetch": self._fetch,
            "rebuild": self._rebuild,
        }[job.kind]
        try:
            reply = handler(job)
        except KeyboardInterrupt as error:
            # The interrupt came between the learner's code and ours.
            reply = Done(error=report_exception(error)).message(job.data["id"])
        if os.getpid() != self.pid:
            # A process the learner's code forked came out of the cell: it is no rank and must not answer for one.
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(0)
        try:
            self.channel.send(reply)
        except OSError:
            control_thread.leave(0)

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
        from course_lib.ranks.process import die_with_parent

        self.channel.sock.close()
        # The system counts the forking *thread* as the parent: a child of a helper thread would die with that.
        if threading.get_ident() == self.main_thread:
            die_with_parent()

    def open_streams(self) -> None:
        """Standard output and error as fresh text files over descriptors 1 and 2, in whatever state they were left."""
        for fd, saved in enumerate(self.saved_output, start=1):
            try:
                alive = os.fstat(fd).st_ino == os.fstat(saved).st_ino
            except OSError:
                alive = False
            if not alive:
                os.dup2(saved, fd)
        for fd, name in ((1, "stdout"), (2, "stderr")):
            stream = getattr(sys, name)
            if not isinstance(stream, _RankStream) or stream.closed:
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
        # Figures drawn on a rank are sent to the notebook (see rank_figures).
        os.environ["MPLBACKEND"] = "module://course_lib.ranks.inside.figures"

    def _start_group(self) -> dict[str, Any] | None:
        try:
            from course_lib.ranks.inside import process_group

            process_group.make_thread_pool()
            process_group.RENDEZVOUS.install()
            process_group.RENDEZVOUS.new_epoch(self.config["epoch"])
            if self.config["init"]:
                if self.config["gpu"] is not None:
                    process_group.take_gpu(self.config["gpu"])
                process_group.start_group(self.config["backend"], self._eager_gpu())
        except Exception as error:
            return asdict(report_exception(error))
        return None

    def _eager_gpu(self) -> int | None:
        """The GPU that the process group is to connect at once, if any."""
        return self.config["gpu"] if self.config["eager"] else None

    # -- jobs ---------------------------------------------------------------------------------------------------

    def display(self, *things: Any) -> None:
        """Show objects in the notebook: figures as pictures, the rest as text."""
        for thing in things:
            if hasattr(thing, "savefig"):
                from course_lib.ranks.inside.figures import png_of

                self._show_picture(png_of(thing))
            else:
                print(shown(thing))

    def _show_picture(self, png: bytes) -> None:
        self.channel.send(Message("picture", {"rank": self.rank}, png))

    def _cell(self, job: Message) -> Message:
        space = self.main.__dict__

        def body() -> Any:
            compiled = compile_cell(job.data["source"], job.data["label"], job.data["first_line"])
            exec(compiled.statements, space)
            if compiled.value is not None:
                return eval(compiled.value, space)
            return None

        return self._run_learners(job, body).message(job.data["id"])

    def _call(self, job: Message) -> Message:
        import cloudpickle

        never_struck: list[str] = []

        def body() -> Any:
            function, arguments, faults = cloudpickle.loads(job.blob)
            with contextlib.ExitStack() as stack:
                for fault in faults:
                    stack.enter_context(fault.armed(self.rank, never_struck))
                return function(*arguments)

        done = self._run_learners(job, body)
        return replace(done, never_struck=tuple(never_struck)).message(job.data["id"])

    def _script(self, job: Message) -> Message:
        def body() -> None:
            from course_lib.ranks.inside.script import run_script

            run_script(self.main, job.data["path"], job.data["arguments"])

        return self._run_learners(job, body).message(job.data["id"])

    def _run_learners(self, job: Message, body: Any) -> Done:
        self.open_streams()
        self_report.EXTRAS.clear()  # what an earlier job was asked to note
        done = Done()
        started = time.time_ns()
        tracer = None
        try:
            try:
                self.in_learners_code = True
                if job.data.get("trace"):
                    from course_lib.ranks.inside.tracing import Tracer

                    tracer = Tracer()
                with around(job.data.get("around")), tracer or contextlib.nullcontext():
                    value = body()
                text = None
                if value is not None and job.kind == "cell":
                    self.main.__dict__["_"] = value
                    text = shown(value)
                self.kept_value = value
                done = Done(shown=text, has_value=value is not None)
                blob, not_sent = values.pack(value)  # may call the learner's __reduce__
                done = replace(done, value=blob, not_sent=not_sent)
            finally:
                self.in_learners_code = False
        except BaseException as error:
            self.in_learners_code = False
            done = replace(done, error=report_exception(error))
            with contextlib.suppress(Exception):
                done = replace(done, facts=self_report.facts_at(error.__traceback__))
            error.__traceback__ = None
        if job.data.get("around"):
            facts = done.facts or self_report.facts_of(self.main_thread)
            done = replace(done, facts=facts, records=tuple(records_since(started)))
        if os.getpid() == self.pid:
            self._send_open_figures()
            self._flush()
        trace = tuple(tracer.events()) if tracer is not None else ()
        return replace(
            done, trace=trace, started_ns=started, ended_ns=time.time_ns(), sequence=sequence_numbers()
        )

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()

    def _send_open_figures(self) -> None:
        if "matplotlib.pyplot" in sys.modules:
            from course_lib.ranks.inside.figures import open_figures

            with contextlib.suppress(Exception):
                for png in open_figures():
                    self._show_picture(png)

    def _fetch(self, job: Message) -> Message:
        if job.data["name"] is None:
            value, found = self.kept_value, True
        else:
            found = job.data["name"] in self.main.__dict__
            value = self.main.__dict__.get(job.data["name"])
        blob, not_sent = b"", None
        if found:
            try:
                blob, not_sent = values.pack(_through(job.data.get("through"), value), limit=MAX_BLOB_BYTES)
            except Exception as error:
                not_sent = {"text": "", "reason": f"{type(error).__name__}: {error}"}
        return Message("fetched", {"id": job.data["id"], "found": found, "not_sent": not_sent}, blob)

    def _rebuild(self, job: Message) -> Message:
        from course_lib.ranks.inside import process_group

        problem = None
        moved = 0
        try:
            moved = process_group.rebuild_group(self.config["backend"], self._eager_gpu(), job.data["epoch"])
        except Exception as error:
            problem = asdict(report_exception(error))
        return Message("rebuilt", {"id": job.data["id"], "problem": problem, "wrappers": moved})


def sequence_numbers() -> dict[str, int]:
    """By process group, the number of the last collective that this rank has issued on it."""
    with contextlib.suppress(Exception):
        import torch.distributed as dist

        from course_lib.ranks.inside import process_group

        if dist.is_initialized():
            return process_group.sequence_numbers()
    return {}


def records_since(started_ns: int) -> list[dict[str, Any]]:
    """The collectives this rank has issued since then, without the lines that issued them: reading those takes long."""
    with contextlib.suppress(Exception):
        from course_lib.ranks.inside import flight_recorder, process_group

        records = flight_recorder.recorded_collectives(process_group.RENDEZVOUS.since_ns)
        return [record for record in records if record["time_ns"] >= started_ns]
    return []


def around(named: tuple[str, dict[str, Any]] | None) -> contextlib.AbstractContextManager[Any]:
    """The context manager of this name: how other rooms of the course come to watch what runs on a rank."""
    if named is None:
        return contextlib.nullcontext()
    import importlib

    where, arguments = named
    module, _, function = where.partition(":")
    made: contextlib.AbstractContextManager[Any] = getattr(importlib.import_module(module), function)(
        **arguments
    )
    return made


def _through(how: str | None, value: Any) -> Any:
    """The value as a function of the course, named as `module:function`, sees it."""
    if how is None:
        return value
    module, _, function = how.partition(":")
    return getattr(importlib.import_module(module), function)(value)


class _RankStream(io.TextIOWrapper):
    """Line-buffered text over a descriptor; what cannot be encoded is shown escaped instead of raising."""

    def __init__(self, fd: int) -> None:
        super().__init__(
            io.BufferedWriter(io.FileIO(fd, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )


CURRENT: Rank | None = None


def run_rank(fd: int, config: dict[str, Any]) -> int:
    """Be rank `config["rank"]` of a gang until the kernel says stop; returns the exit code."""
    global CURRENT
    import socket

    for resource_name, limit in config.get("limits", {}).items():
        import resource

        number = getattr(resource, resource_name)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(number, (limit, limit))
    CURRENT = Rank(BlockingChannel(socket.socket(fileno=fd)), config)
    return CURRENT.run()
