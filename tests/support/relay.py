"""A relay between two machines: `python relay.py PORT TARGET`; killed and started again, it is a cut in the wire."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


class Relay:
    """Passes what comes at its port on to another, while it is not cut."""

    def __init__(self, target: int) -> None:
        self.target = target
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None
        self.mend()

    def cut(self) -> None:
        """End it, and with it all its connections."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def mend(self) -> None:
        """Start it again; returns when its port is open."""
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(self.port), str(self.target)], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()


@contextlib.contextmanager
def relay_to(target: int) -> Iterator[Relay]:
    """A relay to this port."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.cut()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def _serve(port: int, target: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, there_writer), _pass_on(there_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    print("open", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
