"""What a rank on another host tells has that host's times: here they become this machine's."""

import dataclasses

from realranks.outcome.outcome import Collective
from realranks.ranks.hosts import link
from realranks.ranks.messages import JobReply, StatusReply
from realranks.ranks.status import RankStatus

NOW, AHEAD = 1_000_000, 400
RECORD = Collective("0", 1, "all_reduce", (), (), False, time_ns=NOW)
EARLIER = dataclasses.replace(RECORD, time_ns=NOW - AHEAD)
STATUS = RankStatus(0, (), None, 0.0, {}, {}, records=(RECORD,))


def reply(now, record):
    event = {"name": "backward", "start_ns": now + 1, "issued_ns": now + 2, "seconds": 0.5}
    other = {"name": "forward", "start_ns": now}
    return JobReply(1, started_ns=now, ended_ns=now + 9, trace=[event, other], records=(record,))


def test_all_times_of_a_job_are_moved_and_nothing_else():
    assert link._moved(reply(NOW, RECORD), AHEAD) == reply(NOW - AHEAD, EARLIER)
    assert link._moved(reply(NOW, RECORD), -AHEAD).started_ns == NOW + AHEAD


def test_a_job_that_has_not_begun_has_no_times():
    assert link._moved(JobReply(1), AHEAD) == JobReply(1)


def test_the_times_of_collectives_in_a_status_are_moved():
    moved = link._moved(StatusReply(STATUS), AHEAD)
    assert moved == StatusReply(dataclasses.replace(STATUS, records=(EARLIER,)))
