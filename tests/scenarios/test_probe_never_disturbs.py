"""Sound scripts behave the same whatever happens to the probe that watches them: none of its errors comes through."""

import functools

import pytest

from realranks.ranks.kernel.gang import Gang
from realranks.ranks.kernel.job import Job
from realranks.ranks.messages import Script
from realranks.ranks.observed.script_run import run_script_once
from realranks.scripts.launching import starts_its_ranks
from realranks.watch.exchanges import Exchanges
from realranks.watch.files import Files
from realranks.watch.gathered import Gathered
from realranks.watch.loaders import Loaders
from realranks.watch.metrics import Metrics
from realranks.watch.optimizers import Optimizers
from realranks.watch.probe import Probe
from realranks.watch.waiting import WaitingClock
from realranks.watch.worker_draws import WorkerDraws
from tests.scenarios import failing_hooks
from tests.scenarios.catalogue import SILENT, scenarios

SOUND = [each for each in scenarios() if each.kind == SILENT]
#: One script that starts its ranks is enough: the probe is the same in all of them, and each process loads torch anew.
ANEW = ("spawn_twice", "spawn_same_port", "processes_with_a_queue")
EVERY_HOOK = [each for each in SOUND if each.path.stem not in ANEW]
#: The scripts in which hooks fail one by one, by what they use most.
ALONE = {
    Loaders: ("persistent_workers",),
    Gathered: ("rows_of_all_with_their_gradient",),
    Exchanges: ("stages_times_replicas",),
    Metrics: ("accuracy_of_each_task",),
    Files: ("files_handed_over",),
    Probe: ("gan", "fsdp2"),
    Optimizers: ("gan",),
    WaitingClock: ("gan",),
    WorkerDraws: ("augmented_in_workers",),
}
AROUND = f"{failing_hooks.__name__}:{failing_hooks.failing.__name__}"


def sound(name):
    return next(each for each in SOUND if each.path.stem == name)


def ran(scenario, around):
    if starts_its_ranks(str(scenario.path)):
        script = Script(str(scenario.path), tuple(scenario.arguments()))
        run = run_script_once(Job(script, timeout=scenario.timeout, around=around, repair=False))
        return next((outcome for outcome in run.sets if not outcome.ok), run.script)
    gang = Gang(scenario.ranks, init=False)
    try:
        return gang.run_script(
            str(scenario.path), scenario.arguments(), timeout=scenario.timeout, around=around, repair=False
        ).settled()
    finally:
        gang.stop()


def seen(outcome):
    """What a script wrote, and how each of its ranks ended."""
    errors = {rank: error.full_traceback for rank, error in outcome.errors.items()}
    return dict(outcome.stdout), dict(outcome.stderr), dict(outcome.endings), errors


@functools.cache
def unwatched(name):
    return seen(ran(sound(name), None))


@pytest.mark.parametrize("scenario", EVERY_HOOK, ids=[each.name for each in EVERY_HOOK])
def test_a_script_ends_well_though_every_hook_raises(scenario):
    outcome = ran(scenario, (AROUND, {"hooks": failing_hooks.NAMES}))
    assert outcome.ok, outcome
    assert "FaultyHookError" not in str(outcome.stderr)


@pytest.mark.parametrize(
    ("owner", "hook"), [(owner, name) for owner, names in failing_hooks.HOOKS.items() for name in names]
)
def test_a_script_writes_and_ends_the_same_though_one_hook_raises(owner, hook):
    for name in ALONE[owner]:
        outcome = ran(sound(name), (AROUND, {"hooks": [hook], "spared": 1, "every": 2}))
        assert seen(outcome) == unwatched(name)


def test_the_hooks_that_are_tried_are_those_there_are():
    for owner, names in failing_hooks.HOOKS.items():
        assert set(names) <= set(vars(owner)), owner


def test_what_a_failing_hook_did_not_look_at_is_told():
    outcome = ran(sound("gan"), (AROUND, {"hooks": ["looked_at"], "spared": 1}))
    told = outcome.facts[0].probe.unseen
    assert told == {"weights and inputs": "FaultyHookError: call 2 of looked_at"}
