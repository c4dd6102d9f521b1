"""Processes of one user find each other, whatever the folder for temporary files is called."""

import os
import socket

import pytest

from realranks.ranks.private_sockets import connected, reachable


@pytest.mark.parametrize("length", [5, 90, 200])
def test_a_socket_is_bound_and_reached_however_long_its_path_is(tmp_path, length):
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX) as listener:
        with reachable(folder / "it.socket") as short:
            listener.bind(short)
        listener.listen(1)
        wire = connected(folder / "it.socket")
        assert wire is not None
        wire.close()
    assert (folder / "it.socket").is_socket()
    assert len(os.listdir("/proc/self/fd")) == before
