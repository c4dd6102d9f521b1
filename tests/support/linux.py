"""What the tests ask about the system they run on."""

import platform


def kernel() -> tuple[int, ...]:
    """The version of the kernel: (6, 1)."""
    return tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
