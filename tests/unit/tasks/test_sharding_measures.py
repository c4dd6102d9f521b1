"""What a task counts on a rank: bytes, whatever the type of a number, and of a sharded tensor the rank's part."""

import torch

from course_lib.lessons.sharding.tasks.measures import bytes_of, state_of


def test_bytes_of_tensors_of_several_types():
    assert bytes_of([torch.zeros(3, 4), None, torch.zeros(5, dtype=torch.bfloat16)]) == 48 + 10
    assert bytes_of([]) == 0


def test_the_state_of_adam_is_two_numbers_for_each_weight():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    assert state_of(optimizer) == []
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert bytes_of(state_of(optimizer)) == 2 * bytes_of(model.parameters())
