"""Ranks meet at an address; no name server need say what it is called.

When a process connects to a TCPStore, torch looks the peer's name up for its log (`SocketImpl` in torch's Socket.cpp),
and getnameinfo asks the name server for that: no line of /etc/hosts answers for ::ffff:127.0.0.1, which torch makes of
127.0.0.1. Where the name server is slow, each rank starts so much later; where it is silent, as behind many firewalls,
ten seconds and more.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import re
from collections.abc import Iterator

# Not instead: IPv6's loopback (containers often have none), RES_OPTIONS (it would change the learner's own look-ups),
# or a store of our own (learners would not see torch's).
_SETTINGS = "/etc/nsswitch.conf"
#: What glibc does where the file says nothing.
_USUAL = "files dns"


def is_local(host: str) -> bool:
    """Check whether this host is found without a name server: an address, or the machine itself."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return host == "localhost"


def ask_no_name_server() -> bool:
    """Resolve names by /etc/hosts alone in this process from now on; False if that is impossible (no glibc)."""
    return _look_up_in("files")


@contextlib.contextmanager
def without_name_server() -> Iterator[None]:
    """Resolve names by /etc/hosts alone in this process within this block, if possible."""
    if not ask_no_name_server():
        yield
        return
    try:
        yield
    finally:
        _look_up_in(_as_set())


def _look_up_in(services: str) -> bool:
    """Set where getaddrinfo and getnameinfo look from now on, as a line of nsswitch.conf does."""
    try:
        configure = ctypes.CDLL(None).__nss_configure_lookup
    except (AttributeError, OSError, TypeError):
        return False
    return bool(configure(b"hosts", services.encode()) == 0)


def _as_set() -> str:
    """Read where this machine is configured to look for hosts."""
    try:
        with open(_SETTINGS, encoding="ascii", errors="replace") as file:
            found = re.search(r"^\s*hosts\s*:([^#\n]*)", file.read(), re.MULTILINE)
    except OSError:
        return _USUAL
    return found[1].strip() if found else _USUAL
