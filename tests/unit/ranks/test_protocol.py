"""The wire between the kernel and a rank: whole messages, torn ones, and bytes that are none."""

import json
import socket
import struct

import pytest

from realranks.ranks.protocol import (
    MAX_BLOB_BYTES,
    MAX_HEADER_BYTES,
    BufferedChannel,
    Decoder,
    Message,
    ProtocolError,
)

MESSAGES = [
    Message("job_reply", {"id": 1, "text": "日本 \ud800 \x00"}, b"\x00\xff" * 50),
    Message("ready"),
    Message("big", {"n": [1.5, None, True]}, bytes(200_000)),
]


def test_a_message_survives_the_wire():
    for message in MESSAGES:
        assert list(Decoder().feed(message.encode())) == [message]


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 64, 4096])
def test_torn_frames_are_put_together(size):
    data = b"".join(message.encode() for message in MESSAGES[:2])
    decoder = Decoder()
    found = []
    for start in range(0, len(data), size):
        found += decoder.feed(data[start : start + size])
    assert found == MESSAGES[:2]


def test_several_messages_in_one_chunk_come_out_in_order():
    data = b"".join(message.encode() for message in MESSAGES)
    assert list(Decoder().feed(data)) == MESSAGES


def frame(header: bytes, blob: bytes = b"") -> bytes:
    return struct.pack("!II", len(header), len(blob)) + header + blob


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff" * 16,
        frame(b"not json"),
        frame(b"[1, 2]"),
        frame(json.dumps({"kind": "x"}).encode()),
        frame(b"\xff\xfe"),
        frame(b"null"),
    ],
)
def test_nonsense_is_refused(nonsense):
    with pytest.raises(ProtocolError):
        list(Decoder().feed(nonsense))


@pytest.mark.parametrize(
    ("header", "blob"), [(MAX_HEADER_BYTES + 1, 0), (0, MAX_BLOB_BYTES + 1), (0xFFFFFFFF, 0), (0, 0xFFFFFFFF)]
)
def test_a_message_that_announces_too_much_is_refused_before_it_has_come(header, blob):
    with pytest.raises(ProtocolError, match=f"message of {header} \\+ {blob} bytes announced"):
        list(Decoder().feed(struct.pack("!II", header, blob)))


@pytest.mark.parametrize(("header", "blob"), [(MAX_HEADER_BYTES, 0), (0, MAX_BLOB_BYTES)])
def test_a_message_as_large_as_is_allowed_is_waited_for(header, blob):
    assert list(Decoder().feed(struct.pack("!II", header, blob))) == []


def test_the_kernels_end_never_blocks_on_a_peer_that_reads_nothing():
    mine, theirs = socket.socketpair()
    channel = BufferedChannel(mine)
    message = Message("job", {}, bytes(1_000_000))
    for _ in range(5):
        channel.send(message)
    assert channel.wants_write
    received = 0
    decoder = Decoder()
    theirs.setblocking(False)
    while received < 5:
        channel.flush()
        received += len(list(decoder.feed(theirs.recv(1 << 20))))
    channel.flush()
    assert not channel.wants_write
    theirs.close()
    channel.close()


def test_the_kernels_end_closes_on_nonsense_and_on_the_end_of_the_stream():
    for sent in (b"\xff" * 16, b""):
        mine, theirs = socket.socketpair()
        channel = BufferedChannel(mine)
        with theirs:
            theirs.sendall(sent)
        assert channel.receive() == []
        assert channel.closed
        channel.send(Message("job"))  # nobody there: no error
        channel.close()
