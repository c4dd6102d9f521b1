"""What is noted of the rows that a loader gives."""

import torch
from torch.utils.data import Subset, TensorDataset

from realranks.watch.rows import picked

WHOLE = TensorDataset(torch.arange(9))


def test_what_a_subset_has_picked_is_told_from_another_choice_and_from_another_order():
    choices = [WHOLE, Subset(WHOLE, [1, 2]), Subset(WHOLE, [2, 1]), Subset(Subset(WHOLE, [3, 1, 2]), [1, 2])]
    assert picked(WHOLE) is None
    assert len({picked(each) for each in choices}) == len(choices)
    assert picked(Subset(WHOLE, range(1, 3))) == picked(Subset(WHOLE, [1, 2]))
