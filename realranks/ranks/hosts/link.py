"""One rank on another machine, as the kernel holds it: everything passes through its host."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TypeVar

from realranks.outcome.outcome import EXIT_HOST_GONE, Collective
from realranks.ranks.hosts.host import Host
from realranks.ranks.hosts.wire import Action, RankCommand, StartRank, Stream
from realranks.ranks.kernel.links import GangLink
from realranks.ranks.kernel.output import Output
from realranks.ranks.messages import Body, JobReply, StatusReply
from realranks.ranks.protocol import Channel
from realranks.ranks.starting import RankConfig

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
        """Yield the bytes that the host has forwarded."""
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

    def receive(self, stream: Stream, content: bytes) -> None:
        """Take what has come on one of the rank's streams."""
        if stream is Stream.WIRE:
            self.channel.arrived.append(content)
            self.read()
        else:
            (self.stdout, self.stderr, self.stack_dump)[stream - 1].keep(content)

    def lose_wire(self) -> None:
        """Mark the rank's wire as lost: nothing more comes from it."""
        self.channel.mark_closed()

    @property
    def pid(self) -> int | None:
        """The process id on its own machine, once the host has told it."""
        return self.host.pids.get(self.key)

    @property
    def exit_code(self) -> int | None:
        """The exit code: None while the rank lives, `EXIT_HOST_GONE` if it is not known any more."""
        code = self.host.exits.get(self.key)
        return EXIT_HOST_GONE if code is None and self.host.lost_reason else code

    @property
    def vanished(self) -> bool:
        """True where its machine is gone: its peers may wait for it for ever."""
        return bool(self.host.lost_reason)

    @property
    def is_unresponsive(self) -> bool:
        """True while its machine does not answer."""
        return self.host.is_unresponsive

    @property
    def host_name(self) -> str:
        """The machine's name."""
        return self.host.name

    def _do(self, action: Action, number: int = 0) -> None:
        if self.alive:
            self.host.say(RankCommand(self.key, action, number))

    def kill(self) -> None:
        """Kill the process and everything it started; its peers' exits are not its fault."""
        self.killed_by_course = True
        self._do(Action.KILL)

    def dismiss(self) -> None:
        """Ask the rank to close its files and leave, and see to it that it does."""
        self.killed_by_course = True
        self._do(Action.DISMISS)

    def signal(self, number: int) -> None:
        """Send a signal to the rank's process."""
        self._do(Action.SIGNAL, number)

    def interrupt(self) -> None:
        """Send SIGINT to the rank and the processes it has started."""
        self._do(Action.INTERRUPT)

    def processor_seconds(self) -> float:
        """Return the CPU seconds that the rank's process has used; 0 if it is gone."""
        return self.host.ask_process(self.key).seconds

    def is_stopped(self) -> bool:
        """Check whether a signal (SIGSTOP, SIGTSTP) has stopped the process."""
        return self.host.ask_process(self.key).stopped

    def close(self) -> None:
        """Close the rank's wire; the rank sees that and exits by itself."""
        if not self.channel.closed:
            self._do(Action.CLOSE)
        self.channel.close()
        self.host.links.pop(self.key, None)

    def take(self, kind: type[_Reply], job: int) -> _Reply | None:
        """Take the reply of this kind to this job, if it has arrived; convert its times to this machine's clock."""
        reply = super().take(kind, job)
        return None if reply is None else _moved(reply, self.host.clock_offset_ns)


def _moved(reply: _Reply, clock_offset_ns: int) -> _Reply:
    """Convert the times of a clock that is this far ahead to those of this machine."""

    def earlier(records: tuple[Collective, ...]) -> tuple[Collective, ...]:
        return tuple(dataclasses.replace(one, time_ns=one.time_ns - clock_offset_ns) for one in records)

    if isinstance(reply, StatusReply):
        status = dataclasses.replace(reply.status, records=earlier(reply.status.records))
        return dataclasses.replace(reply, status=status)
    if isinstance(reply, JobReply) and reply.ended_ns:
        for event in reply.trace:
            event["start_ns"] -= clock_offset_ns
            if "issued_ns" in event:
                event["issued_ns"] -= clock_offset_ns
        return dataclasses.replace(
            reply,
            started_ns=reply.started_ns - clock_offset_ns,
            ended_ns=reply.ended_ns - clock_offset_ns,
            records=None if reply.records is None else earlier(reply.records),
        )
    return reply
