"""The solutions' DDP classes under tests of the kind that Stanford's CS336 (assignment 2) puts to its students'.

Written anew from the interface that assignment asks for: a wrapper with `forward` and
`finish_gradient_synchronization`, rank 0's weights at the start, and after each step the weights of a model that one
process trained on all data.
"""

import pytest

from course_lib.grading.task_sources import task_cell
from course_lib.tasks import find_task
from realranks.cells.run import run_quietly
from realranks.outcome.outcome import Kind

SIZES_MB = (0.0001, 0.0016, 0.01)


def train_beside_one_process(source, name, arguments):
    """Runs on every rank: five steps with and without weights that two layers share."""
    import copy

    import torch
    import torch.distributed as dist

    space = {}
    exec(source, space)
    rank, world = dist.get_rank(), dist.get_world_size()

    class Toy(torch.nn.Module):
        def __init__(self, tied):
            super().__init__()
            self.fc1 = torch.nn.Linear(10, 10, bias=False)
            self.fc2 = torch.nn.Linear(10, 50, bias=not tied)
            self.fc3 = torch.nn.Linear(50, 10, bias=False)
            self.fc4 = torch.nn.Linear(10, 50, bias=False)
            self.fc5 = torch.nn.Linear(50, 5, bias=False)
            self.fixed = torch.nn.Parameter(torch.rand(2), requires_grad=False)
            if tied:
                self.fc4.weight = self.fc2.weight
            else:
                self.fc2.bias.requires_grad = False

        def forward(self, x):
            for layer in (self.fc1, self.fc2, self.fc3, self.fc4):
                x = torch.relu(layer(x))
            return self.fc5(x)

    found = []
    for extra in arguments:
        for tied in (False, True):
            torch.manual_seed(rank)
            single = Toy(tied)
            parallel = space[name](copy.deepcopy(single), *extra)
            first = all(map(torch.equal, single.parameters(), parallel.module.parameters()))
            everyones = [None] * world
            dist.all_gather_object(everyones, [p.tolist() for p in parallel.module.parameters()])
            found.append(first == (rank == 0) and all(one == everyones[0] for one in everyones))
            if rank != 0:
                single.load_state_dict(parallel.module.state_dict())
            ours = torch.optim.SGD(parallel.parameters(), lr=0.1)
            theirs = torch.optim.SGD(single.parameters(), lr=0.1)
            torch.manual_seed(42)
            x, y = torch.randn(20, 10), torch.randn(20, 5)
            mine = slice(rank * 20 // world, (rank + 1) * 20 // world)
            for _ in range(5):
                theirs.zero_grad()
                torch.nn.functional.mse_loss(single(x), y).backward()
                theirs.step()
                ours.zero_grad()
                torch.nn.functional.mse_loss(parallel(x[mine]), y[mine]).backward()
                parallel.finish_gradient_synchronization()
                ours.step()
                pairs = zip(single.parameters(), parallel.module.parameters(), strict=True)
                found.append(all(torch.allclose(one, other, atol=1e-6) for one, other in pairs))
                order = torch.randperm(20)  # the same on every rank
                x, y = x[order], y[order]
    return found


@pytest.mark.parametrize(
    ("name", "arguments"), [("NaiveDDP", [()]), ("BucketedDDP", [(size,) for size in SIZES_MB])]
)
def test_a_class_fits_the_interface_of_a_public_course(name, arguments):
    cell = task_cell(find_task(f"buckets.{name}"), solved=True)
    outcome = run_quietly(train_beside_one_process, cell, name, arguments, ranks=2)
    assert outcome.kind is Kind.OK, repr(outcome)
    assert outcome.values == {rank: [True] * 12 * len(arguments) for rank in (0, 1)}
