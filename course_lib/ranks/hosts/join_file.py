"""The file by which hosts find the kernel that waits for them, and prove that they may join it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from course_lib.ranks.codec import MalformedError, decode, encode
from course_lib.ranks.hosts.host import HostError
from course_lib.ranks.hosts.wire import course_digest

#: Names the file where `ddp-course host` has no --join.
VARIABLE = "DDP_COURSE_JOIN"
NO_CURVE = "The ZMQ library of this Python cannot encrypt (CURVE): pip install --force-reinstall pyzmq"


@dataclass(frozen=True)
class JoinFile:
    """What a host has to know.

    Attributes:
        address: where the kernel's side listens.
        port: there.
        server_key: by which a host knows that side; public.
        public_key: of the one pair of keys that all hosts of this gang have.
        secret_key: of the same pair.
        expires: seconds since 1970 after which no host may join.
        digest: of the course's code.
        course: its version.
    """

    address: str
    port: int
    server_key: str
    public_key: str
    secret_key: str
    expires: float
    digest: str
    course: str

    @classmethod
    def read(cls, path: Path) -> JoinFile:
        """Read the file.

        Raises:
            HostError: it is not there, is not such a file, is readable for others, has expired, or belongs to other
                course files.
        """
        try:
            with path.open(encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                found = decode(cls, json.load(file))
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}.") from None
        except (ValueError, RecursionError, MalformedError):
            raise HostError(f"{path} is not a join file: %ranks listen writes one.") from None
        if status.st_uid == os.getuid() and status.st_mode & 0o077:
            raise HostError(f"{path} holds a key that others may read: chmod 600 {path}")
        if time.time() > found.expires:
            raise HostError(f"{path} has expired: %ranks listen writes another.")
        if found.digest != course_digest():
            raise HostError(
                f"{path} belongs to other course files (ddp-course {found.course}, {found.digest}) than this host "
                f"({course_digest()}): install the same here."
            )
        return found

    def remove(self, path: Path) -> None:
        """Remove the file, unless another one is there by now."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if decode(JoinFile, json.loads(path.read_text(encoding="utf-8"))) == self:
                path.unlink()

    def write(self, path: Path) -> None:
        """Write the file, readable for this user only; an older join file there is replaced.

        Raises:
            OSError: it cannot be written, or something else is there.
        """
        with contextlib.suppress(FileNotFoundError):
            try:
                decode(JoinFile, json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, RecursionError):
                raise FileExistsError(17, "something else than a join file is there", str(path)) from None
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as text:
            json.dump(encode(self), text, indent=1)
        unfinished.replace(path)
