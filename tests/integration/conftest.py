"""Gangs and kernels for the tests of this folder."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.ranks_and_kernels import Kernel, Ranks

_WITH_TORCH = "import os, sys, time\nimport torch, torch.distributed as dist\nrank = dist.get_rank()"


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    """A gang of four of the test's own, torch and `rank` already there."""
    mine = Ranks()
    mine(_WITH_TORCH)
    yield mine
    mine.gang.stop()


@pytest.fixture(scope="module")
def shared_ranks() -> Iterator[Ranks]:
    """A gang of four for tests that leave it as it was."""
    mine = Ranks()
    mine(_WITH_TORCH)
    yield mine
    mine.gang.stop()


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all tests that leave it usable; each sets up the gang it wants."""
    mine = Kernel(tmp_path_factory.mktemp("kernel"))
    yield mine
    mine.close()


@pytest.fixture
def new_kernel(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Starts kernels that the test may break."""
    mine: list[Kernel] = []

    def start(within: Sequence[str] = (), **environment: str) -> Kernel:
        folder = tmp_path / f"kernel{len(mine)}"
        folder.mkdir()
        mine.append(Kernel(folder, within, **environment))
        return mine[-1]

    yield start
    for one in mine:
        one.close()
