"""The learner's side of the board's HTTP interface: one connection, requests of JSON, nothing else.

It raises `BoardAwayError` for whatever a network, a proxy or another program at that address may do instead of
answering: the request may be repeated then.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from course_lib.board.events import Event, on_the_wire

_SECONDS = 5.0
_LONGEST_ANSWER = 64 * 1024
_HOST = re.compile(r"[A-Za-z0-9.\-]+|[0-9A-Fa-f:.]+")


class AddressError(ValueError):
    """A text that is not the address of a board; the message is one line."""


class BoardAwayError(Exception):
    """The board did not answer, or something else did. `seconds`: when it wants to be asked again, if it said so."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class RefusedError(Exception):
    """The board said no, and will say so again: a wrong code, or a learner whom it does not know."""


@dataclass(frozen=True)
class Address:
    """The address of a board."""

    secure: bool
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


def address_of(text: str) -> Address:
    """Read `http://HOST:PORT`, or `HOST:PORT`.

    Raises:
        AddressError: it is something else.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    else:
        if parts.scheme not in ("http", "https") or parts.username or parts.password or parts.query:
            host = ""
    if not _HOST.fullmatch(host):
        raise AddressError(f"{text!r} is not the address of a board, such as http://10.0.0.5:8123")
    secure = parts.scheme == "https"
    return Address(secure, host, port or (443 if secure else 80), parts.path.rstrip("/"))


class Client:
    """A connection to one board, opened when it is needed and again when it was cut."""

    def __init__(self, address: Address, seconds: float = _SECONDS) -> None:
        self.address = address
        self._seconds = seconds
        self._connection: http.client.HTTPConnection | None = None

    def join(self, code: str, name: str, token: str) -> str:
        """Join, or join again; returns the name under which the board shows the learner.

        Raises:
            BoardAwayError: try again later. RefusedError: the code is not the board's.
        """
        answer = self._ask("join", {"code": code, "name": name, "token": token})
        if not isinstance(answer.get("name"), str):
            raise BoardAwayError("it is not a board that answers there")
        return str(answer["name"])

    def send(self, token: str, events: Sequence[Event], now: float) -> set[str]:
        """Send events; returns the ids of those that need not be sent again.

        Raises:
            BoardAwayError: try again later. RefusedError: the board does not know the learner.
        """
        answer = self._ask("events", {"events": [on_the_wire(event, now) for event in events]}, token)
        done = answer.get("done")
        if not isinstance(done, list):
            raise BoardAwayError("it is not a board that answers there")
        return {each for each in done if isinstance(each, str)}

    def leave(self, token: str) -> None:
        """Have the board forget the learner.

        Raises:
            BoardAwayError: try again later. RefusedError: it does not know the learner.
        """
        self._ask("leave", {}, token)

    def close(self) -> None:
        """Close the connection; the next request opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, what: str, data: Mapping[str, object], token: str = "") -> dict[str, object]:
        body = json.dumps(data).encode()
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        used_before = self._connection is not None
        try:
            try:
                status, text, later = self._once(what, body, headers)
            except (OSError, http.client.HTTPException):
                if not used_before:
                    raise
                # The board may have closed a connection that was idle for long, or have been restarted.
                self.close()
                status, text, later = self._once(what, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise BoardAwayError(str(error) or type(error).__name__) from None
        except BaseException:
            self.close()  # an interrupt: half an answer may be left on the connection
            raise
        answer = _object(text)
        if status == 200 and answer is not None:
            return answer
        if status in (401, 403) and answer is not None and isinstance(answer.get("error"), str):
            raise RefusedError(str(answer["error"])[:200])
        if status != 200:
            raise BoardAwayError(f"it answered with status {status}", later)
        raise BoardAwayError("it is not a board that answers there")

    def _once(self, what: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, float | None]:
        if self._connection is None:
            where = (self.address.host, self.address.port)
            self._connection = (
                http.client.HTTPSConnection(
                    *where, timeout=self._seconds, context=ssl.create_default_context()
                )
                if self.address.secure
                else http.client.HTTPConnection(*where, timeout=self._seconds)
            )
        self._connection.request("POST", f"{self.address.path}/{what}", body, dict(headers))
        answer = self._connection.getresponse()
        text = answer.read(_LONGEST_ANSWER)
        if answer.read(1):
            self.close()  # longer than any of the board's
        later = None
        with contextlib.suppress(ValueError):
            later = min(60.0, max(0.0, float(answer.headers.get("Retry-After") or "")))
        return answer.status, text, later


def _object(text: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
