"""A manager of Jupyter kernels that takes no ports."""

import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager


class Manager(KernelManager):
    """Talks with kernels through files.

    A port that was free when it was chosen may be taken before the kernel has started: gloo's ranks take many.
    """

    def __init__(self, **settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ddp-course-kernel-", ignore_cleanup_errors=True)
        super().__init__(transport="ipc", ip=str(Path(self._folder.name) / "kernel"), **settings)
