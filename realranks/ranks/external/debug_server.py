"""A run's recorders, read from torch's debug server (`torch.distributed.debug.start_debug_server()`).

Rank 0 has started a process that answers on a port: it asks a thread of each rank for its flight recorder, also while
the rank is blocked. torch 2.13 calls it experimental. Source: torch/distributed/debug/_frontend.py.
"""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import re
from collections.abc import Collection

import psutil

from realranks.ranks.external.dumps import MAX_BYTES, Dump, dump_of

_PORT = 25999
_SECONDS = 5.0
_RANK = re.compile(r"<h2>Rank (\d+): [^<]*</h2>\s*<pre>([^<]*)</pre>")


def dumps_of_server(pids: Collection[int]) -> dict[int, Dump]:
    """Read the recorders of the run of these processes; empty if none of them has started the server."""
    with contextlib.suppress(OSError, ValueError, http.client.HTTPException, psutil.Error):
        listening = [
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == _PORT
        ]
        if any(pid is not None and psutil.Process(pid).ppid() in pids for pid in listening):
            return {int(rank): _dump(html.unescape(text)) for rank, text in _RANK.findall(_page())}
    return {}


def _page() -> str:
    with contextlib.closing(http.client.HTTPConnection("localhost", _PORT, timeout=_SECONDS)) as wire:
        wire.request("GET", "/fr_trace_json")
        return wire.getresponse().read(MAX_BYTES).decode()


def _dump(text: str) -> Dump:
    return dump_of("torch's debug server", 0.0, lambda: json.loads(text))
