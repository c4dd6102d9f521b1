"""Run a script in a rank's process as `torchrun` or Python would: as `__main__`, with its arguments, its folder first.

Used inside a rank. A process that has no RANK runs the script as Python alone would (see `attach/process_starts.py`).
"""

from __future__ import annotations

import io
import os
import sys
import types
from collections.abc import Sequence


def run_script(main: types.ModuleType, path: str, arguments: Sequence[str]) -> None:
    """Execute the file at `path` in the module `main`; what it raises is raised here, but `sys.exit(0)` is an end.

    Raises:
        OSError: the file cannot be read. SyntaxError: it is not Python.
    """
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    os.environ["MPLBACKEND"] = "agg"
    if "RANK" in os.environ:
        os.environ.update(
            GROUP_WORLD_SIZE="1",
            ROLE_NAME="default",
            ROLE_RANK=os.environ["RANK"],
            ROLE_WORLD_SIZE=os.environ["WORLD_SIZE"],
            TORCHELASTIC_RESTART_COUNT="0",
            TORCHELASTIC_MAX_RESTARTS="0",
            TORCHELASTIC_RUN_ID="none",
            TORCHELASTIC_SIGNALS_TO_HANDLE="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        )
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    main.__dict__.pop("display", None)
    main.__dict__.update(__name__="__main__", __file__=path, __spec__=None, __cached__=None)
    with io.open_code(path) as file:
        source = file.read()
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
