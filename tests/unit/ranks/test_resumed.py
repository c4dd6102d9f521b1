"""A wire that outlives its connections loses nothing and repeats nothing, however often it is cut."""

import random
import socket
from collections import deque
from contextlib import suppress

import pytest

from course_lib.ranks.hosts.resumed import ACKNOWLEDGED, PIECE, WINDOW, ResumedWire, read_frame


class Ends:
    """Two ends of a wire: what each says waits in a queue, which a cut may empty."""

    def __init__(self):
        self.users, self.wires, self.queues = [], [], []
        for _ in range(2):
            user, local = socket.socketpair()
            user.setblocking(False)
            queue = deque()
            self.users.append(user)
            self.queues.append(queue)
            self.wires.append(
                ResumedWire(local, lambda head, piece, queue=queue: queue.append((head, piece)))
            )

    def close(self):
        for user, wire in zip(self.users, self.wires, strict=True):
            user.close()
            wire.local.close()

    def deliver(self, sender, most=1 << 30):
        """What one end has said comes to the other, as far as it is in the queue."""
        receiver = self.wires[1 - sender]
        for _ in range(min(most, len(self.queues[sender]))):
            head, piece = self.queues[sender].popleft()
            kind, number, acknowledged = read_frame(head)
            assert kind in (PIECE, ACKNOWLEDGED)
            receiver.acknowledge(acknowledged)
            if kind == PIECE:
                receiver.take(number, piece)

    def cut(self, lost):
        """A connection ends: the last frames of both queues are lost, then both ends resume on a new one."""
        for queue in self.queues:
            for _ in range(min(lost, len(queue))):
                queue.pop()
        came = [wire.came for wire in self.wires]
        for side, wire in enumerate(self.wires):
            wire.resume(came[1 - side])

    def serve(self):
        for wire in self.wires:
            wire.serve(wire.events)


@pytest.fixture
def ends():
    both = Ends()
    yield both
    both.close()


def drained(user):
    found = b""
    while True:
        try:
            chunk = user.recv(1 << 20)
        except BlockingIOError:
            return found, False
        if not chunk:
            return found, True
        found += chunk


@pytest.mark.parametrize("seed", range(20))
def test_all_bytes_come_once_and_in_order_whatever_is_lost(ends, seed):
    chance = random.Random(seed)
    said = [chance.randbytes(chance.randrange(3_000_000)) for _ in range(2)]
    left = list(said)
    heard, over = [b"", b""], [False, False]
    while not all(over):
        side = chance.randrange(2)
        match chance.randrange(5):
            case 0:
                user = ends.users[side]
                size = chance.randrange(1, 200_000)
                with suppress(BlockingIOError):
                    left[side] = left[side][user.send(left[side][:size]) :] if left[side] else b""
                if not left[side]:
                    user.shutdown(socket.SHUT_WR)
            case 1:
                ends.serve()
            case 2:
                ends.deliver(side, chance.randrange(40))
            case 3 if chance.random() < 0.3:
                ends.cut(chance.randrange(30))
            case _:
                found, over[1 - side] = drained(ends.users[1 - side])
                heard[1 - side] += found
    assert heard == [said[1], said[0]]
    for _ in range(3):
        ends.serve()
        ends.deliver(0)
        ends.deliver(1)
    assert all(wire.done and wire.delivered for wire in ends.wires)


def test_who_reads_slowly_slows_the_sender(ends):
    sent, before = 0, -1
    while sent != before:
        before = sent
        with suppress(BlockingIOError):
            while True:
                sent += ends.users[0].send(bytes(1 << 16))
        for _ in range(3 * WINDOW):
            ends.serve()
            ends.deliver(0)
            ends.deliver(1)
    assert WINDOW << 15 < sent < 3 * WINDOW << 16
    got = 0
    while got < sent:
        got += len(drained(ends.users[1])[0])
        ends.serve()
        ends.deliver(0)
        ends.deliver(1)
    assert got == sent


@pytest.mark.parametrize("seed", range(5))
def test_frames_of_nonsense_are_no_pieces_and_change_nothing(ends, seed):
    chance = random.Random(seed)
    ends.users[0].send(b"hello")
    ends.serve()
    for _ in range(500):
        head = chance.randbytes(chance.randrange(40))
        kind, number, acknowledged = read_frame(head)
        if kind not in (PIECE, ACKNOWLEDGED):
            continue
        ends.wires[1].acknowledge(acknowledged)
        ends.wires[1].take(number + 2, head)
    ends.deliver(0)
    assert drained(ends.users[1])[0] == b"hello"
