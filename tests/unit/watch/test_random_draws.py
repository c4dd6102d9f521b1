"""How many numbers the default generators have given, read from their states."""

import numpy as np
import pytest
import torch

from realranks.outcome.probe_notes import Counts, ProbeNotes
from realranks.watch.random_draws import RandomDraws


def drawn(between, rows=4, name="torch"):
    """Return what is noted of a pass that comes after `between`."""
    noted = ProbeNotes(Counts())
    draws = RandomDraws(noted)
    draws.before(torch.zeros(rows, 1))
    draws.after()
    between()
    draws.before(torch.zeros(rows, 1))
    (draw,) = noted.draws.draws[name]
    return draw


@pytest.fixture(autouse=True)
def seeded():
    state = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        np.random.seed(7)
        yield
    np.random.set_state(state)


@pytest.mark.parametrize("numbers", [0, 1, 16, 523, 524, 525, 1147])
def test_torchs_numbers_are_counted_also_where_a_block_ends(numbers):
    torch.rand(100)
    assert drawn(lambda: torch.rand(numbers)).numbers == numbers


def test_of_many_numbers_at_least_a_block_is_counted():
    torch.rand(100)
    assert 500 < drawn(lambda: torch.rand(5000)).numbers <= 5000


def test_seeding_is_no_drawing():
    torch.rand(100)
    assert drawn(lambda: torch.manual_seed(8)).numbers == 0
    np.random.rand(50)
    assert drawn(lambda: np.random.seed(8), name="numpy.random").numbers == 0


def test_numpys_numbers_are_counted_within_a_block():
    np.random.rand()
    assert drawn(lambda: np.random.randint(2**31, size=40), name="numpy.random").numbers == 40


def test_what_a_pass_draws_itself_does_not_count():
    noted = ProbeNotes(Counts())
    draws = RandomDraws(noted)
    draws.before(torch.zeros(4, 1))
    torch.rand(50)
    draws.after()
    draws.before(torch.zeros(4, 1))
    assert [draw.numbers for draw in noted.draws.draws["torch"]] == [0]


def test_the_first_passes_are_noted_and_no_more():
    noted = ProbeNotes(Counts())
    draws = RandomDraws(noted)
    for _ in range(40):
        draws.before(torch.zeros(4, 1))
        draws.after()
    assert len(noted.draws.draws["torch"]) == 9
