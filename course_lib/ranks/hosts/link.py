"""One rank on another machine, as the kernel holds it: everything passes through its host."""

from __future__ import annotations

import dataclasses
import itertools
import signal
from collections.abc import Iterator
from typing import TypeVar

from course_lib.outcome.outcome import EXIT_HOST_GONE, Collective
from course_lib.ranks.hosts.host import Host
from course_lib.ranks.hosts.wire import WIRE, Do, StartRank
from course_lib.ranks.kernel.output import Output
from course_lib.ranks.kernel.rank_handle import GangLink
from course_lib.ranks.messages import Body, JobReply, StatusReply
from course_lib.ranks.protocol import Channel
from course_lib.ranks.starting import RankConfig

_Reply = TypeVar("_Reply", bound=Body)

#: Numbers of ranks and stores on hosts: no two of one kernel are the same.
next_key = itertools.count(1).__next__


class RemoteChannel(Channel):
    """The wire to a rank of a host."""

    def __init__(self, host: Host, key: int) -> None:
        super().__init__()
        self.arrived: list[bytes] = []
        self.host = host
        self.key = key

    def send_encoded(self, message: bytes) -> None:
        """Have the host pass it on."""
        if not self.closed:
            self.host.pass_to(self.key, message)

    def chunks(self) -> Iterator[bytes]:
        """The bytes that the host has passed on."""
        while self.arrived:
            yield self.arrived.pop(0)


class RemoteLink(GangLink):
    """A rank of a gang on another machine."""

    here = False

    def __init__(self, host: Host, config: RankConfig, interface: str, environment: dict[str, str]) -> None:
        self.host = host
        self.key = self.token = next_key()
        self.channel: RemoteChannel
        super().__init__(config.rank, RemoteChannel(host, self.key), [Output(), Output(), Output()])
        self.uses_gpus = config.gpu is not None
        host.links[self.key] = self
        host.say(StartRank(self.key, config, interface, environment))

    def receive(self, stream: int, content: bytes) -> None:
        """Take what has come on one of the rank's streams."""
        if stream == WIRE:
            self.channel.arrived.append(content)
            self.read()
        else:
            (self.stdout, self.stderr, self.stack_dump)[stream - 1].keep(content)

    def lose_wire(self) -> None:
        """Nothing more comes from the rank."""
        self.channel.give_up()

    @property
    def pid(self) -> int | None:
        """The process id on its own machine, once the host has told it."""
        return self.host.pids.get(self.key)

    @property
    def exit_code(self) -> int | None:
        """How the process ended: None while it lives, `EXIT_HOST_GONE` where that is not known any more."""
        code = self.host.exits.get(self.key)
        return EXIT_HOST_GONE if code is None and self.host.gone else code

    @property
    def vanished(self) -> bool:
        """True where its machine is gone: its peers may wait for it for ever."""
        return bool(self.host.gone)

    @property
    def unheard(self) -> bool:
        """True while its machine does not answer."""
        return self.host.unheard

    @property
    def host_name(self) -> str:
        """The machine's name."""
        return self.host.name

    def _do(self, what: str, number: int = 0) -> None:
        if self.alive:
            self.host.say(Do(self.key, what, number))

    def kill(self) -> None:
        """Kill the process and everything it started; its peers' exits are not its fault."""
        self.killed_by_course = True
        self._do("kill")

    def dismiss(self) -> None:
        """Ask the rank to close its files and leave, and see to it that it does."""
        self.killed_by_course = True
        self._do("dismiss")

    def signal(self, number: int) -> None:
        """Send a signal to the rank's process."""
        self._do("signal", number)

    def interrupt(self) -> None:
        """SIGINT to the rank and what it has started."""
        self._do("interrupt", signal.SIGINT)

    def processor_seconds(self) -> float:
        """What the rank's process has used so far; 0 of one that is gone."""
        return self.host.processes((self.key,)).seconds.get(self.key, 0.0)

    def is_stopped(self) -> bool:
        """True while a signal (SIGSTOP, SIGTSTP) has stopped the process."""
        return self.key in self.host.processes((self.key,)).stopped

    def close(self) -> None:
        """The kernel is done with it: the rank sees the end of its wire and leaves by itself."""
        if not self.channel.closed:
            self._do("close")
        self.channel.close()
        self.host.links.pop(self.key, None)

    def take(self, kind: type[_Reply], job: int) -> _Reply | None:
        """The reply of this kind to this job, if it has come, with its times as this machine's clock has them."""
        reply = super().take(kind, job)
        return None if reply is None else _moved(reply, self.host.ahead_ns)


def _moved(reply: _Reply, ahead_ns: int) -> _Reply:
    """The same, with the times of a clock that is so much ahead as those of this machine."""

    def earlier(records: tuple[Collective, ...]) -> tuple[Collective, ...]:
        return tuple(dataclasses.replace(one, time_ns=one.time_ns - ahead_ns) for one in records)

    if isinstance(reply, StatusReply):
        status = dataclasses.replace(reply.status, records=earlier(reply.status.records))
        return dataclasses.replace(reply, status=status)
    if isinstance(reply, JobReply) and reply.ended_ns:
        for event in reply.trace:
            event["start_ns"] -= ahead_ns
            if "issued_ns" in event:
                event["issued_ns"] -= ahead_ns
        return dataclasses.replace(
            reply,
            started_ns=reply.started_ns - ahead_ns,
            ended_ns=reply.ended_ns - ahead_ns,
            records=None if reply.records is None else earlier(reply.records),
        )
    return reply
