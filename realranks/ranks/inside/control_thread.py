"""A rank's second thread: it answers the kernel while the main thread computes, or is blocked in a collective.

The wait inside gloo releases the GIL, so this thread can say where the main thread is and free it. It runs no code of
the learner. When the kernel's end of the wire closes, it ends the process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping

from realranks.outcome.outcome import EXIT_CUT_OFF, Collective, PauseKind
from realranks.outcome.places import is_learners
from realranks.ranks.inside import flight_recorder, gpu_fence, groups, nccl_recorder, self_report
from realranks.ranks.inside.blocking_calls import ends_by_itself, waiting_in, waits_for_gpu
from realranks.ranks.inside.freeing import free_blocked
from realranks.ranks.inside.idle import idles
from realranks.ranks.inside.partners import partners
from realranks.ranks.inside.pauses import Pause, pause, sleeps_in, sleeps_unseen
from realranks.ranks.inside.process_group import RENDEZVOUS
from realranks.ranks.inside.tracebacks import current_stack
from realranks.ranks.inside.traffic import awake as awake_threads
from realranks.ranks.inside.traffic import children, is_asleep, our_threads, traffic
from realranks.ranks.messages import (
    Body,
    Cannot,
    Free,
    Freed,
    StatusReply,
    StatusRequest,
    Stop,
    decode_message,
    encode_message,
    number_of,
)
from realranks.ranks.process import STACK_SIGNAL
from realranks.ranks.protocol import BlockingChannel, Message
from realranks.ranks.status import NO_RANK, GpuQueue, RankStatus

#: What this thread reads and says.
QUESTIONS = (StatusRequest, Free, StatusReply, Freed, Cannot)


class Jobs:
    """The jobs that wait for the main thread; None asks it to leave.

    A job stays here until `begin`: a signal handler of the learner's, or a thread of its own, may raise in the main
    thread at the very moment in which a job is there, and the kernel would wait for its answer.
    """

    def __init__(self) -> None:
        self._waiting: deque[Message | None] = deque()
        self._come: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, job: Message | None) -> None:
        """Add one, from any thread."""
        self._waiting.append(job)
        self._come.put(None)

    def wait(self) -> None:
        """Return once there is one."""
        while True:
            with contextlib.suppress(KeyboardInterrupt, Exception):
                while not self._waiting:
                    self._come.get()
                return

    def begin(self) -> Message | None:
        """Take the oldest."""
        return self._waiting.popleft()


def answer_kernel(channel: BlockingChannel, jobs: Jobs, main_thread: int, store_port: int) -> None:
    """Read messages until the kernel is gone: jobs go to the main thread, questions are answered here."""
    try:
        _answer_kernel(channel, jobs, main_thread, store_port)
    except BaseException:
        # The learner's code may have replaced what Python itself provides. A rank that hears nothing any more would be
        # waited for without end.
        leave(EXIT_CUT_OFF)


def _answer_kernel(channel: BlockingChannel, jobs: Jobs, main_thread: int, store_port: int) -> None:
    dismissed = False
    while True:
        message = channel.receive()
        if message is None and dismissed:
            return  # the main thread is closing the learner's files
        if message is None:
            # The kernel is gone, or the learner's code has closed the wire: which of the two is not known here.
            leave(EXIT_CUT_OFF)
        elif message.kind in (StatusRequest.kind, Free.kind):
            try:
                reply = answer(message, main_thread, store_port)
            except Exception as error:
                # The learner's code may have replaced anything, also what an answer needs.
                reply = Cannot(type(error).__name__)
            try:
                channel.send(encode_message(reply, number_of(message)))
            except OSError:
                leave(EXIT_CUT_OFF)
        elif message.kind == Stop.kind:
            dismissed = True
            jobs.put(None)
            # A main thread that does not come back (an endless loop) must not keep the process.
            threading.Thread(target=_leave_soon, daemon=True).start()
        else:
            jobs.put(message)


def answer(question: Message, main_thread: int, store_port: int) -> Body:
    """Answer `StatusRequest` (where is the main thread?) or `Free` (wake it from its collective)."""
    if question.kind == StatusRequest.kind:
        asked = decode_message(StatusRequest, question)
        return StatusReply(get_status(main_thread, asked.detail, asked.brief))
    return Freed(free_blocked(None if decode_message(Free, question).store else store_port))


def _leave_soon() -> None:
    time.sleep(1.0)
    leave(0)


def leave(code: int) -> None:
    """End the process at once, skipping every destructor: gloo's may abort or hang."""
    with contextlib.suppress(BaseException):
        os.write(2, b"")
    os._exit(code)


def get_status(main_thread: int, detail: bool = False, brief: bool = False) -> RankStatus:
    """Collect the main thread's stack, and the rank's processor time, traffic and issued collectives.

    With `detail` also the line and stage of DDP that issued each collective, and the rank's `facts`. A `brief` status
    has no collectives: reading the flight recorder takes tens of milliseconds, which a training rank needs itself.
    """
    stack = current_stack(main_thread)
    moved, awake = traffic(), awake_threads(our_threads())
    asleep = is_asleep(os.getpid())
    unseen = sleeps_unseen(main_thread)
    blocked_in = waiting_in(stack, main_thread) if unseen is None else None
    # All threads but this one and gloo's, which `moved` and `loops` speak for; before what follows uses more.
    cpu_seconds = time.process_time() - time.thread_time() - awake.loop_seconds
    started, others = children(), _other_threads(main_thread)
    progress = sum(tell() for tell in self_report.PROGRESS)
    # Another thread of the learner's may change any of these while they are read: what was read until then counts.
    sequence: dict[str, int] = {}
    members: dict[str, tuple[int, ...]] = {}
    records: tuple[Collective, ...] = ()
    queues: Mapping[str, GpuQueue] = {}
    uses_gpus, soon = False, False
    on_gpu = None
    with contextlib.suppress(Exception):
        if gpu_fence.is_waiting():
            on_gpu = gpu_fence.AT_END
        elif blocked_in is None:
            on_gpu = waits_for_gpu(stack, main_thread)
    with contextlib.suppress(Exception):
        sequence = groups.sequence_numbers()
        members = {name: tuple(ranks) for name, ranks in groups.group_members().items()}
        uses_gpus = not groups.only_through_sockets()
        # Whose main thread waits for its GPU, or runs nothing, is in no call of CUDA's that keeps others waiting.
        idle = not any(is_learners(frame.file) for frame in stack)
        readable = detail and (on_gpu is not None or idle)
        queues, of_nccl = nccl_recorder.read_recorder(readable) if uses_gpus else ({}, [])
        if not brief:
            recorded = flight_recorder.recorded_collectives(
                RENDEZVOUS.since_ns, stacks=detail, of_nccl=of_nccl
            )
            records = tuple(map(Collective.from_record, recorded))
        under_way = {record.group for record in records if not record.done}
        if blocked_in is not None:
            soon = ends_by_itself(main_thread, groups.groups_named(under_way))
    sleeps, needed, facts = None, None, None
    with contextlib.suppress(Exception):
        if on_gpu is not None:
            sleeps = Pause(on_gpu, PauseKind.GPU)  # awake or asleep: CUDA may spin while it waits
        elif blocked_in is None and asleep:
            sleeps = unseen or pause(main_thread)
        elif blocked_in is not None:
            needed = partners(main_thread)
    if detail:
        with contextlib.suppress(Exception):
            facts = self_report.facts_of(main_thread)
    return RankStatus(
        rank=NO_RANK,
        stack=tuple(stack),
        waiting_in=blocked_in,
        cpu_seconds=cpu_seconds,
        sequence=sequence,
        members=members,
        records=records,
        asleep=asleep and not awake.others,
        ends_by_itself=soon,
        facts=facts,
        brief=brief,
        loops={str(thread): loops for thread, loops in awake.loops.items()},
        moved=moved.moved,
        in_flight=moved.in_flight,
        unconfirmed=moved.unconfirmed,
        threads=tuple(others),
        children={child.pid: (child.name, child.cpu_seconds) for child in started},
        pause=(sleeps.call, sleeps.kind) if sleeps is not None else None,
        partners=needed,
        progress=progress,
        seen_through=moved.known and not uses_gpus,
        uses_gpus=uses_gpus,
        queues=queues,
    )


def _other_threads(main_thread: int) -> list[tuple[str, str]]:
    """List the learner's threads that could still act, with what each sleeps in; idle pool threads cannot."""
    named = {thread.ident: thread for thread in threading.enumerate()}
    return [
        (thread.name if (thread := named.get(ident)) is not None else "a thread", _thread_sleeps_in(ident))
        for ident, frame in sys._current_frames().items()
        if ident not in (main_thread, threading.get_ident())
        and not _is_ours(named.get(ident))
        and not idles(frame)
    ]


def _thread_sleeps_in(ident: int) -> str:
    with contextlib.suppress(Exception):
        if waiting_in(current_stack(ident), ident) is not None:
            return "communication"
        return sleeps_in(ident)
    return PauseKind.OTHER


def _is_ours(thread: threading.Thread | None) -> bool:
    """Recognise threads that never issue a collective: the course's, tqdm's monitor, those of queues and loaders."""
    if thread is None:
        return False
    if type(thread).__name__ == "TMonitor" or thread.name.startswith(("course-", "QueueFeederThread")):
        return True
    return "pin_memory" in thread.name


def stack_on_signal(fd: int) -> None:
    """Let `STACK_SIGNAL` write the main thread's Python stack to `fd`, whatever the thread is doing."""
    faulthandler.register(STACK_SIGNAL, file=fd, all_threads=False, chain=False)


def stack_on_crash(fd: int) -> None:
    """Let a crash write all threads' stacks to `fd`."""
    # A crash in C++ (gloo aborts a rank that receives what it does not expect) says there where it happened.
    faulthandler.enable(file=fd, all_threads=True)
