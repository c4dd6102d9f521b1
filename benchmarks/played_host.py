"""A host that plays its ranks: `python -m benchmarks.played_host`. What the kernel does with a thousand ranks is real.

Each rank answers as an idle one does that has just run a cell with one all_reduce; there is no process behind it.
"""

from __future__ import annotations

import sys

from realranks.ranks.codec import encode
from realranks.ranks.hosts.agent import Agent, main
from realranks.ranks.hosts.wire import Forward, RankCommand, RankEnded, RankStarted, StartRank, Stream
from realranks.ranks.messages import (
    Cell,
    JobReply,
    Ready,
    StatusReply,
    StatusRequest,
    encode_message,
    number_of,
)
from realranks.ranks.protocol import Decoder, Message
from realranks.ranks.status import NO_RANK, RankStatus

_STATUS = RankStatus(NO_RANK, (), None, 0.0, {"0": 1}, {}, ())


class _Played(Agent):
    """Ranks that are only played; the store is real."""

    def __init__(self, out: int) -> None:
        super().__init__(out)
        self._ranks: dict[int, int] = {}
        self._cells = 0

    def _start_rank(self, wanted: StartRank) -> None:
        self._ranks[wanted.key] = wanted.config.rank
        self.say(RankStarted(wanted.key, wanted.key))
        self._answer(wanted.key, encode_message(Ready(wanted.config.rank, wanted.key)))

    def _handle(self, message: Message) -> None:
        if message.kind == Forward.kind:
            keys = message.data["keys"]
            assert isinstance(keys, list)
            for asked in Decoder().feed(message.blob):
                self._play(asked, keys)
        elif message.kind == RankCommand.kind and message.data["key"] in self._ranks:
            key = int(str(message.data["key"]))
            if self._ranks.pop(key, None) is not None:
                self.say(RankEnded(key, 0))
        else:
            super()._handle(message)

    def _play(self, asked: Message, keys: list[int]) -> None:
        if asked.kind == Cell.kind:
            self._cells += 1
            done = encode(JobReply(sequence={"0": self._cells}, started_ns=1, ended_ns=2))
            for key in keys:
                self.queue_output(key, Stream.STDOUT, b"1024.0\n")
                self._answer(key, Message(JobReply.kind, {"id": number_of(asked), **done}))
        elif asked.kind == StatusRequest.kind:
            reply = encode_message(StatusReply(_STATUS), number_of(asked))
            for key in keys:
                self._answer(key, reply)

    def _answer(self, key: int, message: Message) -> None:
        self.queue_output(key, Stream.WIRE, message.encode())


if __name__ == "__main__":
    sys.exit(main(_Played))
