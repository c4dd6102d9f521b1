"""How each rank's part of a job ended, judged from what is known of the job, without ranks."""

from types import SimpleNamespace

import pytest

from realranks.outcome.outcome import Ending, Kind
from realranks.ranks.kernel.job import PEER_LOST, Job, Run, conclude
from realranks.ranks.messages import Cell, JobReply
from tests.support.outcomes import error

NOTHING = SimpleNamespace(text=lambda: "")


def link(rank, exit_code=None):
    return SimpleNamespace(
        host_name="",
        rank=rank,
        exit_code=exit_code,
        alive=exit_code is None,
        killed_by_course=False,
        stdout=NOTHING,
        stderr=NOTHING,
        stack_dump=NOTHING,
        main_stack=lambda: (),
        pictures=[],
        take=lambda kind, job: None,
    )


def concluded(errors, deaths=None, **known):
    """The outcome of a job on four ranks: messages of errors by rank (None: it finished), exit codes of the dead."""
    deaths = deaths or {}
    links = [link(rank, deaths.get(rank)) for rank in range(4)]
    run = Run(Job(Cell("")), 1, links, died_first=dict(deaths), **known)
    for rank in range(4):
        if rank not in deaths:
            text = errors.get(rank)
            run.done[rank] = JobReply(error=error("RuntimeError", text) if text is not None else None)
    return conclude(SimpleNamespace(links=links, world_size=4, get_statuses=lambda *_, **__: {}), run)


CLOSED = "[gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]:2345"


@pytest.mark.parametrize("message", [CLOSED, *(sign.upper() for sign in PEER_LOST)])
def test_an_error_that_only_says_that_a_peer_is_gone_is_not_the_ranks_own(message):
    found = concluded({0: message, 1: message}, {2: -9})
    assert found.kind is Kind.DIED
    assert found.exits == {2: -9}
    assert [found.endings[rank] for rank in range(4)] == [
        Ending.FREED,
        Ending.FREED,
        Ending.DIED,
        Ending.FINISHED,
    ]
    assert set(found.errors) == {0, 1}, "what they said is kept"


def test_an_error_of_its_own_beside_a_death_stays_the_ranks_own():
    found = concluded({0: CLOSED, 1: "shapes differ"}, {2: 3})
    assert (found.endings[0], found.endings[1]) == (Ending.FREED, Ending.RAISED)


def test_a_lost_connection_where_nobody_died_is_an_error_like_any_other():
    found = concluded({0: CLOSED})
    assert found.kind is Kind.RAISES
    assert found.endings[0] is Ending.RAISED


@pytest.mark.parametrize(
    ("why", "raised", "finished"),
    [
        ("deadlock", Ending.FREED, Ending.FREED),
        ("timeout", Ending.FREED, Ending.FINISHED),
        ("stopped", Ending.RAISED, Ending.FINISHED),
    ],
)
def test_how_a_rank_that_the_course_stopped_has_ended_depends_on_why(why, raised, finished):
    found = concluded({0: CLOSED}, stopped_at={0: why, 1: why}, proved=why == "deadlock")
    assert (found.endings[0], found.endings[1]) == (raised, finished)
    assert found.endings[2] is Ending.FINISHED


def test_a_rank_outside_the_job_that_died_is_named():
    links = [link(0), link(1, -9)]
    run = Run(Job(Cell(""), only=(0,)), 1, links[:1], done={0: JobReply()})
    found = conclude(SimpleNamespace(links=links, world_size=2, get_statuses=lambda *_, **__: {}), run)
    assert (found.kind, found.exits, found.ranks) == (Kind.DIED, {1: -9}, (0,))
