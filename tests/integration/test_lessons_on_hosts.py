"""A lesson shows the same on ranks of two machines as on one."""

import pytest

from tests.support import lessons_on_hosts, networks


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not() or "-")
def test_lesson_06_shows_the_same_on_two_machines():
    ((_, cells, differ),) = lessons_on_hosts.lessons_on_two_machines(["06"])
    assert cells > 20
    assert not differ
