"""A rank answers each job once: what comes besides has somebody else said in its name."""

import os
import pickle
import socket

import pytest

from course_lib.grading.attempt import AskedRanks, Clock, End, EndedError, pickled_text
from realranks.ranks.codec import MalformedError
from realranks.ranks.inside.values import pack
from realranks.ranks.kernel.links import Link
from realranks.ranks.kernel.output import OutputBuffer
from realranks.ranks.messages import Freed, JobReply, Picture, Ready, encode_message, number_of
from realranks.ranks.protocol import BufferedChannel, Message
from tests.support.outcomes import outcome


class Here(Link):
    """A rank that this test plays itself."""

    pid = None
    exit_code = None

    def kill(self):
        raise AssertionError("nobody is to be killed here")


@pytest.fixture
def link():
    """A rank's link, and what the rank can be made to say on its wire."""
    mine, theirs = socket.socketpair()
    pipes = [os.pipe() for _ in range(3)]
    link = Here(0, BufferedChannel(mine), [OutputBuffer(read) for read, _ in pipes])

    def says(*messages):
        theirs.sendall(b"".join(message.encode() for message in messages))
        link.read()

    yield link, says
    link.close()
    theirs.close()
    for _, write in pipes:
        os.close(write)


def done(job):
    return encode_message(JobReply(), job)


def test_the_reply_that_is_awaited_is_taken_in_once(link):
    link, says = link
    link.awaited = 5
    says(done(5))
    assert not link.unasked
    assert link.take(JobReply, 5) == JobReply()
    assert link.awaited is None


@pytest.mark.parametrize("replies", [(5, 5), (4, 5), (5, 6)])
def test_a_reply_that_nobody_waits_for_is_noticed_and_not_believed(link, replies):
    link, says = link
    link.awaited = 5
    says(*map(done, replies))
    assert link.unasked
    assert [number_of(message) for message in link.inbox] == [5]


def test_other_messages_are_nobodys_answer(link):
    link, says = link
    link.awaited = 5
    says(encode_message(Ready(0, 1)), encode_message(Picture(b"png")), encode_message(Freed(1), 9))
    assert not link.unasked
    assert (link.ready, link.pictures) == (Ready(0, 1), [b"png"])


def test_a_reply_that_cannot_be_read_is_no_reply(link):
    link, says = link
    link.awaited = 5
    says(Message("job_reply", {"id": 5, "error": [1]}))
    with pytest.raises(MalformedError):
        link.take(JobReply, 5)
    assert link.take(JobReply, 5) is None


def test_a_rank_that_says_nonsense_of_its_start_is_not_listened_to_any_more(link):
    link, says = link
    says(Message("ready", {"pid": "1"}))
    assert link.ready is None
    assert link.channel.closed


class Played:
    """A gang of one rank whose job ends well, with a reply besides or without."""

    world_size = 1

    def __init__(self, link):
        self.links = [link]

    def call(self, payload, **options):
        return outcome(world_size=1, packed={0: pack('{"seen": 1}')})


class Unwatched:
    """Stands for the watch over an answer's processes: there are none."""

    def look(self):
        """Nothing to see."""


@pytest.mark.parametrize("replies", [(5,), (5, 5)])
def test_an_answer_whose_rank_replied_twice_is_not_believed(link, replies):
    link, says = link
    link.awaited = 5
    says(*map(done, replies))
    ranks = AskedRanks(Played(link), Unwatched(), Clock(1.0, 6.0))
    if replies == (5,):
        assert ranks.ask(len) == ({0: {"seen": 1}}, "")
    else:
        with pytest.raises(EndedError) as ended:
            ranks.ask(len)
        assert ended.value.end is End.FORGED


def test_only_a_pickle_of_one_string_is_read_and_nothing_else_in_it_is_passed_over():
    assert pickled_text(pickle.dumps("{}")) == "{}"
    for blob in (pickle.dumps(["{}"]), pickle.dumps(("{}", 1)), pickle.dumps(1), b"(V{}\np0\n."):
        with pytest.raises(ValueError, match="not a pickled string"):
            pickled_text(blob)
