"""Run a command behind a slow wire: `slow_wire.py BYTES_PER_SECOND COMMAND ...` passes on that much each way."""

import os
import subprocess
import sys
import threading
import time

_PART = 4096


def _pass_on(source: int, target: int, rate: float) -> None:
    while part := os.read(source, _PART):
        os.write(target, part)
        time.sleep(len(part) / rate)
    os.close(target)


def main() -> int:
    """Returns the exit code of the command."""
    rate, command = float(sys.argv[1]), sys.argv[2:]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    wanted = os.dup(process.stdin.fileno())
    process.stdin.close()
    threading.Thread(target=_pass_on, args=(0, wanted, rate), daemon=True).start()
    _pass_on(process.stdout.fileno(), 1, rate)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
