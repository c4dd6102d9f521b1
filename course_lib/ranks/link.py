"""One rank as the kernel holds it: its wire, its output pipes, its process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import Any

from course_lib.ranks.launcher import Launcher
from course_lib.ranks.output import OutputBuffer
from course_lib.ranks.protocol import BufferedChannel, Message

#: How long a rank may take to close the learner's files when it is dismissed.
LEAVE_SECONDS = 1.0


class RankLink:
    """The kernel's handle of one rank."""

    def __init__(
        self, rank: int, launcher: Launcher, config: dict[str, Any], environment: dict[str, str]
    ) -> None:
        self.rank = rank
        self.launcher = launcher
        self.ready: dict[str, Any] | None = None
        self.inbox: list[Message] = []
        self.pictures: list[bytes] = []
        self.killed_by_course = False
        mine, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(3)]
        with theirs:
            fds = [theirs.fileno(), *(write for _, write in pipes)]
            try:
                self.token = launcher.start("rank", config, environment, fds)
            finally:
                for _, write in pipes:
                    os.close(write)
        self.channel = BufferedChannel(mine)
        self.stdout, self.stderr, self.stack_dump = (OutputBuffer(read) for read, _ in pipes)

    @property
    def pid(self) -> int | None:
        """The process id, once the launcher has told it."""
        return self.launcher.pids.get(self.token)

    @property
    def exit_code(self) -> int | None:
        """How the process ended: None while it lives, negative for a signal."""
        if self.token in self.launcher.failures:
            return 1
        pid = self.pid
        if pid is not None and pid in self.launcher.exits:
            return self.launcher.exits[pid]
        return -9 if self.launcher.gone else None

    @property
    def alive(self) -> bool:
        """True while the process lives."""
        return self.exit_code is None

    @property
    def answers(self) -> bool:
        """True while a reply can still come: the process lives and its wire is open."""
        return self.alive and not self.channel.closed

    def read(self) -> None:
        """Take in messages and output that have arrived."""
        for message in self.channel.receive():
            if message.kind == "ready":
                self.ready = message.data
            elif message.kind == "picture":
                self.pictures.append(message.blob)
            else:
                self.inbox.append(message)

    def take(self, kind: str, job: int) -> Message | None:
        """The reply of this kind to this job, if it has come; older replies are dropped."""
        for message in list(self.inbox):
            if message.kind == kind:
                self.inbox.remove(message)
                if message.data.get("id") == job:
                    return message
        return None

    def signal(self, number: int) -> None:
        """Send a signal to the rank's process."""
        if self.alive and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def interrupt(self) -> None:
        """SIGINT to the rank and what it has started, as Ctrl-C in a terminal: `os.system` waits for its child."""
        if self.alive and self.pid is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGINT)

    def is_stopped(self) -> bool:
        """True while a signal (SIGSTOP, SIGTSTP) has stopped the process."""
        import psutil

        try:
            return self.pid is not None and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def kill(self) -> None:
        """Kill the process and everything it started; its peers' exits are not its fault."""
        self.killed_by_course = True
        if self.pid is not None and self.alive:
            self.launcher.kill(self.pid)

    def dismiss(self) -> None:
        """Ask the rank to close its files and leave, and see to it that it does."""
        self.killed_by_course = True
        if self.pid is not None and self.alive:
            self.channel.send(Message("stop", {}))
            self.launcher.kill(self.pid, after=LEAVE_SECONDS)

    def close(self) -> None:
        """Give the descriptors back. The rank sees the end of its wire and leaves by itself."""
        self.channel.close()
        for buffer in (self.stdout, self.stderr, self.stack_dump):
            with contextlib.suppress(OSError):
                os.close(buffer.fd)
