"""What ranks have recorded does not depend on how fast they can be asked: starved ones get a calm machine's verdict."""

import os
import subprocess
import sys

import pytest

from realranks.scripts.examine import examine, verdict_text
from tests.scenarios.catalogue import scenarios

NAMES = ("head_used_on_some_ranks", "validation_by_a_flag", "metric_once_more", "logged_in_forward")
#: Stands in the line of the first comment, so that all others keep their number.
_LAST_IN_LINE = """
import os; os.nice(10); os.path.exists(G := '/proc/self/autogroup') and open(G, 'w').write('10')
""".strip()


@pytest.fixture
def no_core_to_spare():
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))
    ]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "scenario", [each for each in scenarios() if each.name.endswith(NAMES)], ids=lambda each: each.path.stem
)
def test_a_starved_hang_is_explained_as_a_calm_one(scenario, no_core_to_spare, tmp_path):
    script = tmp_path / scenario.path.name
    _, _, rest = scenario.path.read_text().partition("\n")
    script.write_text(f"{_LAST_IN_LINE}\n{rest}")
    found = examine(str(script), scenario.arguments(), ranks=scenario.ranks, method=scenario.start)
    diagnosis = found.outcome.diagnosis
    assert diagnosis is not None
    assert diagnosis.kind == scenario.kind, verdict_text(found)
    assert set(diagnosis.culprits) == set(scenario.culprits), verdict_text(found)
