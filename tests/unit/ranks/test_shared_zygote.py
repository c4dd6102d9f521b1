"""Who may use a shared zygote, how it is found, and how long it lives."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from realranks.ranks.private_sockets import connected, locked, private_folder, remove_dead
from realranks.ranks.process import identity, lives
from realranks.ranks.protocol import Decoder
from realranks.ranks.server.compatibility import compatibility_of
from realranks.ranks.server.zygote import VARIABLE, address_of, ask_zygote
from realranks.ranks.server.zygote_process import Lifetime

ROOT = Path(__file__).parents[3]
COMPATIBILITY = compatibility_of({"NCCL_DEBUG": "INFO", "EDITOR": "vi"})


@pytest.fixture
def temporary(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the address of a socket must be short
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def listening(temporary):
    address = address_of(private_folder(), COMPATIBILITY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(1)
        yield address


@pytest.fixture
def ended():
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    name = identity(process.pid)
    assert lives(name)
    process.communicate()
    return name


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare (Linux)")
def test_a_process_in_another_network_has_a_zygote_of_its_own(temporary):
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network of its own")
    ask = (
        "from realranks.ranks.server.compatibility import compatibility_of\n"
        "print(*compatibility_of({}).namespaces, sep=chr(10))"
    )
    command = [sys.executable, "-c", ask]
    here, there = (
        tuple(
            subprocess.run(
                [*words, *command], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.split()
        )
        for words in ((), alone)
    )
    assert here == COMPATIBILITY.namespaces != there
    folder = private_folder()
    assert address_of(folder, COMPATIBILITY) != address_of(folder, replace(COMPATIBILITY, namespaces=there))


def test_the_folder_is_this_user_s_alone(temporary):
    folder = private_folder()
    assert folder.parent == temporary
    assert oct(folder.stat().st_mode)[-3:] == "700"
    assert private_folder() == folder


def test_a_folder_that_others_may_enter_is_not_used(temporary):
    private_folder().chmod(0o750)
    assert private_folder() is None


def test_a_link_that_somebody_else_may_have_put_there_is_not_followed(temporary):
    mine = temporary / "mine"
    mine.mkdir(mode=0o700)
    (temporary / f"ddp-course-{os.getuid()}").symlink_to(mine)
    assert private_folder() is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away")
def test_another_user_s_folder_is_not_used(temporary):
    os.chown(private_folder(), 65534, 65534)
    assert private_folder() is None


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not say who listens")
def test_another_user_s_zygote_is_not_used(listening, monkeypatch):
    connected(listening).close()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert connected(listening) is None


def test_other_files_another_python_and_another_torch_have_zygotes_of_their_own(temporary):
    others = [
        replace(COMPATIBILITY, code=dict.fromkeys(COMPATIBILITY.code, (1, 1))),
        replace(COMPATIBILITY, python=("/another/environment", sys.version)),
        replace(COMPATIBILITY, loaded_with={}),
    ]
    assert len({address_of(temporary, compatibility) for compatibility in [COMPATIBILITY, *others]}) == 4
    assert compatibility_of({"NCCL_DEBUG": "INFO"}) == COMPATIBILITY


def test_sockets_of_zygotes_that_were_killed_are_removed_and_others_stay(listening):
    dead = listening.with_name("dead.socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    with locked(listening.parent):
        remove_dead(listening.parent)
    assert (dead.exists(), listening.exists()) == (False, True)


def test_a_process_is_known_by_more_than_its_number(ended):
    me = identity(os.getpid())
    assert lives(me)
    assert not lives(ended)
    assert not lives(f"{os.getpid()}:1")
    assert not lives("")
    assert identity(int(ended.partition(":")[0])) == ""


def test_it_lives_as_long_as_one_of_its_servers(listening, ended):
    me = identity(os.getpid())
    life = Lifetime(listening, ended, idle=100.0)
    life.needed_now(me)
    life.needed_now()
    assert not life.over()
    assert life.owners == {me}
    life.owners = {ended}
    assert life.over()


def test_it_ends_when_nobody_has_needed_it_for_a_while(listening, monkeypatch):
    monkeypatch.setattr("realranks.ranks.server.zygote_process.children", set)
    life = Lifetime(listening, identity(os.getpid()), idle=100.0)
    life.needed -= 101.0
    assert not life.over(), "it still loads torch"
    life.needed_now()
    life.needed -= 101.0
    monkeypatch.setattr("realranks.ranks.server.zygote_process.children", lambda: {1})
    assert not life.over(), "a kernel still has ranks that share its memory"
    monkeypatch.setattr("realranks.ranks.server.zygote_process.children", set)
    assert not life.over()
    life.needed -= 101.0
    assert life.over()


def test_it_ends_when_nobody_can_find_it_and_leaves_another_one_s_socket_alone(listening):
    life = Lifetime(listening, identity(os.getpid()), idle=100.0)
    other = listening.with_name("other")
    other.touch()
    other.replace(listening)
    assert life.over()
    life.close_address()
    assert listening.exists()
    Lifetime(listening, identity(os.getpid()), idle=100.0).close_address()
    assert not listening.exists()


def test_the_package_brings_the_file_by_which_servers_find_the_extension():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    files = project["tool"]["setuptools"]["data-files"]["etc/jupyter/jupyter_server_config.d"]
    assert [(ROOT / file).is_file() for file in files] == [True]


def test_a_zygote_that_has_answered_at_once_has_been_asked(listening, monkeypatch):
    """Were it asked in vain, the kernel would start a server of its own: two of them on one wire."""
    monkeypatch.setenv(VARIABLE, str(listening))
    gone = threading.Event()
    asked = []

    def zygote():
        with socket.socket(socket.AF_UNIX) as listener:
            os.unlink(listening)
            listener.bind(str(listening))
            listener.listen(1)
            there.set()
            wire, _ = listener.accept()
            with wire:
                data, fds, _, _ = socket.recv_fds(wire, 1 << 16, 2)
                asked.append(data)
                for fd in fds:
                    os.close(fd)
        gone.set()

    def send_fds(*arguments, send=socket.send_fds):
        sent = send(*arguments)
        assert gone.wait(20)
        return sent

    there = threading.Event()
    thread = threading.Thread(target=zygote, daemon=True)
    thread.start()
    assert there.wait(20)
    monkeypatch.setattr(socket, "send_fds", send_fds)
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as log:
        assert ask_zygote(theirs, log.fileno(), {})
    thread.join(20)
    (request,) = Decoder().feed(asked[0])
    assert request.kind == "request"
