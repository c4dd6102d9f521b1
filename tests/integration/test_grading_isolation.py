"""Whatever an answer does: a verdict within its time, nothing left behind, and the next answer graded as always."""

import os
import signal
import socket
import textwrap
import time

import psutil
import pytest

from course_lib.grading import landlock
from course_lib.grading.grader import grade
from course_lib.grading.process_limits import adopted
from course_lib.grading.verdict import VerdictKind
from course_lib.lessons.samplers.tasks.evaluate import Evaluate
from course_lib.lessons.samplers.tasks.shard_indices import ShardIndices
from realranks.ranks.codec import encode
from realranks.ranks.kernel import gang
from realranks.ranks.kernel.launcher import warm_up
from realranks.ranks.server import isolation, zygote
from tests.support.ranks_and_kernels import ROOT, until

RIGHT = """
import torch

def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    size = n // world_size if drop_last else -(-n // world_size)
    order = (order * (size * world_size + 1))[: size * world_size]
    return order[rank::world_size]
"""
SLEEPER = "98765.4"  # how long the programs sleep that answers here leave behind: found again by it


class Quick(ShardIndices):
    """The same task with little patience, so that endless answers do not take long to test."""

    seconds = 1.0


class Patient(ShardIndices):
    """The same task for what takes its time where other tests run beside this one."""

    seconds = 60.0


def answer(body):
    """An answer that does something first, and is right otherwise."""
    return RIGHT.replace(
        "    order =", textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n    order =", 1
    )


def left_behind():
    sleeping = [p for p in psutil.process_iter(["cmdline", "status"]) if SLEEPER in (p.info["cmdline"] or ())]
    return [p for p in sleeping if p.info["status"] != psutil.STATUS_ZOMBIE] + adopted()


@pytest.fixture(autouse=True)
def _nothing_left():
    yield
    until(lambda: not left_behind())  # somebody may be about to end


NASTY = {
    "a loop without end": ("while True: pass", "did not finish within 1 s"),
    "a loop in C that never lets go": ("sum(iter(int, 1))", "did not finish within 1 s"),
    "a loop that swallows everything": (
        """
        import time
        while True:
            try: time.sleep(0.1)
            except BaseException: pass
        """,
        "did not finish within 1 s",
    ),
    "signals ignored": (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "did not finish within 1 s",
    ),
    "os._exit": ("import os; os._exit(0)", "ended without finishing (exit code 0)"),
    "sys.exit": ("import sys; sys.exit(0)", "called sys.exit()"),
    "a BaseException": ("raise type('Odd', (BaseException,), {})('x')", "raised Odd"),
    "a KeyboardInterrupt of its own": ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    "an exception without text": (
        "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()",
        "raised Mute",
    ),
    "a fork storm": ("import os\nwhile True: os.fork()", "processes"),
    "a storm of programs": (
        f"import subprocess\nwhile True: subprocess.Popen(['sleep', '{SLEEPER}'], start_new_session=True)",
        "more than 100 processes were started",
    ),
    "output without end": ("while True: print('x' * 100_000)", "Stopped"),
    "input": ("input('your name? ')", "input() has nobody to ask"),
    "deep recursion": ("def f(): return f()\nf()", "raised RecursionError"),
    "recursion without a limit": (
        "import sys; sys.setrecursionlimit(10**9)\ndef f(n): return [f(n + 1)]\nf(0)",
        "",
    ),
    "a large tensor": ("torch.ones(10**10)", "ran out of memory"),
    "a growing list": ("grow = []\nwhile True: grow.append(bytearray(10**7))", "ran out of memory"),
    "a large file": (
        "with open('big', 'wb') as f:\n    for _ in range(1000): f.write(b'0' * 10**7)",
        "File too large",
    ),
    "many files": (
        "for i in range(10**6):\n    with open(f'{i}', 'wb') as f: f.write(b'0' * 10**7)",
        "were written to files",
    ),
    "many removed files": (
        """
        import os
        kept = []
        for i in range(60):
            kept.append(open("one", "wb", 0))
            os.remove("one")
            for _ in range(6): kept[-1].write(bytes(10**7))
        """,
        "were written to files",
    ),
    "empty files": ("for i in range(10**6): open(f'{i}', 'w').close()", "files were made"),
    "a deep folder": (
        "import os, time\nfor _ in range(2000):\n    os.mkdir('deeper')\n    os.chdir('deeper')\ntime.sleep(60)",
        "did not finish within 1 s",
    ),
    "an error with a long name": ("raise type('X' * 10**6, (Exception,), {})", "(1,000,000 characters)"),
    "modules removed": ("import sys; sys.meta_path.clear(); sys.modules.clear()", "raised"),
    "builtins removed": (
        "import builtins\nfor name in ('open', 'len', 'print'): setattr(builtins, name, None)",
        "",
    ),
    "another program": ("import os; os.execv('/bin/true', ['true'])", "exit code 0"),
    "the store filled": (
        """
        import torch.distributed as dist
        store = dist.distributed_c10d._get_default_store()
        for i in range(10**6): store.set(str(i), "x" * 10**7)
        """,
        "",
    ),
    "files without a name": (
        """
        import os
        for i in range(60):
            file = os.memfd_create("x")
            for _ in range(6): os.write(file, bytes(10**7))
        """,
        "were written to files",
    ),
    "large processes": (
        """
        import os, time
        for i in range(8):
            if os.fork() == 0:
                mine = bytearray(700 << 20)
                mine[::4096] = bytes(len(mine) // 4096)
                time.sleep(60)
        time.sleep(60)
        """,
        "use more than 2 GB of memory",
    ),
    "a clock that stands still": (
        "import time\ntime.time = time.monotonic = lambda: 0.0\nwhile True: pass",
        "did not finish within 1 s",
    ),
    "every signal ignored": (
        """
        import signal
        for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            try: signal.signal(each, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """,
        "did not finish within 1 s",
    ),
    "an alarm": (
        "import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(60)",
        "SIGALRM",
    ),
    "a number that cannot be written": ("return [10**100_000]", "raised ValueError"),
    "an error without end": ("raise ValueError('x' * 10**8)", "raised ValueError"),
    "an error that is no text": ("raise ValueError(chr(0xD800) + '\\x1b[2J')", "raised ValueError"),
    "killed by itself": ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    "stopped by itself": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", ""),
    "a thread that kills it later": (
        # The second call waits for it: whether it strikes there or before is the machine's choice.
        """
        import os, threading, time
        if globals().setdefault("called", False): time.sleep(60)
        globals()["called"] = True
        threading.Timer(0.02, os._exit, [1]).start()
        """,
        "",
    ),
    "a crash in C": ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
    "every descriptor closed": ("import os; os.closerange(0, 4000)", ""),
    "nonsense on the course's wire": (
        """
        from realranks.ranks.inside import worker
        worker.CURRENT.channel.sock.sendall(bytes(8) + b"{}" * 999)
        """,
        "",
    ),
    "replies forged badly": (
        """
        from realranks.ranks.inside import worker
        from realranks.ranks.protocol import Message
        for i in range(100): worker.CURRENT.channel.send(Message("job_reply", {"id": i, "error": [1]}))
        """,
        "cannot be read",
    ),
    "a pickle that would run code": (
        """
        import os
        from realranks.ranks.inside import values
        class Evil:
            def __reduce__(self): return (os.mkdir, ("/tmp/ddp-course-was-here",))
        import pickle
        values.pack = lambda value, limit=None: (pickle.dumps(Evil()), None)
        """,
        "cannot be read",
    ),
}


@pytest.mark.parametrize("what", NASTY)
def test_a_nasty_answer_gets_a_verdict_and_nothing_is_left(what):
    body, expected = NASTY[what]
    endless = not expected or "did not finish" in expected
    verdict = grade(Quick() if endless else Patient(), answer(body))
    assert verdict.kind is VerdictKind.ERROR, repr(verdict)
    assert expected in repr(verdict)
    assert not os.path.exists("/tmp/ddp-course-was-here")


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import os; os._exit(3)",
        "import os\nwhile True: os.fork()",
        "import sys; sys.exit()",
    ],
)
def test_trouble_while_the_cell_itself_runs_is_told_as_that(body):
    verdict = grade(Quick(), body + RIGHT)
    assert verdict.kind is VerdictKind.ERROR
    assert "while the cell itself ran" in repr(verdict)


HARMLESS = {
    "noise on stderr": "import sys; sys.stderr.write('noise ' * 100_000)",
    "a lot of output": "print('x' * 1_000_000)",
    "stdout closed": "import os, sys; sys.stdout.close(); os.close(1); os.close(2)",
    "a thread left behind": "import threading; threading.Thread(target=threading.Event().wait).start()",
    "a program left behind": f"import subprocess; subprocess.Popen(['sleep', '{SLEEPER}'], start_new_session=True)",
    "a daemon left behind": (
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    if os.fork() == 0: os.execvp('sleep', ['sleep', '{SLEEPER}'])\n"
        "    os._exit(0)"
    ),
    "another working folder": "import os; os.chdir('/')",
    "its working folder removed": "import os, shutil; shutil.rmtree(os.environ['TMPDIR'], ignore_errors=True)",
    "json replaced": "import json; json.dumps = json.loads = lambda *a, **k: 'forged'",
    "a forgotten async collective": (
        "import torch.distributed as dist; dist.all_reduce(torch.ones(1), async_op=True)"
    ),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_does_no_harm_costs_nothing(what):
    verdict = grade("samplers.shard_indices", answer(HARMLESS[what]))
    assert verdict.passed, repr(verdict)


@pytest.mark.parametrize(
    "numbers", ["range(500)", "[job_under_way()]"], ids=["every job's number", "this job's number"]
)
def test_a_reply_in_the_harness_s_name_is_worth_nothing(numbers):
    """The answer knows what is right, and says so to the grader instead of returning it."""
    source = f"""
import json, pickle, sys
from torch.utils.data import DistributedSampler
from realranks.ranks.inside import worker
from realranks.ranks.protocol import Message

def job_under_way():
    frame = sys._getframe()
    while frame.f_code.co_name != "_answer":
        frame = frame.f_back
    return frame.f_locals["message"].data["id"]

def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    sampler = DistributedSampler(range(n), world_size, rank, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    forged = pickle.dumps(json.dumps({{"seen": list(sampler)}}))
    for number in {numbers}:
        data = {{"id": number, "has_value": True}}
        worker.CURRENT.channel.send(Message("job_reply", data, forged))
    return []
"""
    verdict = grade("samplers.shard_indices", source)
    assert verdict.kind is VerdictKind.ERROR
    assert "replied twice" in verdict.headline


def test_a_rank_keeps_nothing_of_the_oracle():
    source = "from realranks.ranks.inside import worker\nprint(worker.CURRENT.kept_value)\nassert False"
    assert "rank 0 | None" in grade("samplers.shard_indices", source).printed


def test_the_next_answer_is_graded_as_if_nothing_had_happened():
    for body in ("import os; os.kill(os.getppid(), 9)", "import os; os.fork(); os._exit(1)"):
        assert grade(Quick(), answer(body)).kind is VerdictKind.ERROR
        assert grade("samplers.shard_indices", RIGHT).passed


def test_a_server_that_was_stopped_is_replaced(monkeypatch):
    """Stopped, it is alive and starts nothing: the next answer waits in vain, the one after it does not."""
    monkeypatch.setattr(gang, "_START_SECONDS", 2.0)
    pid = warm_up().pid
    os.kill(pid, signal.SIGSTOP)
    for _ in range(2):
        verdict = grade("samplers.shard_indices", RIGHT)
    assert verdict.passed
    assert warm_up().pid != pid


#: What an answer may not touch: a file beside the course, and what is done there.
OUTSIDE = {
    "reads a solution": "open(SOLUTION).read()",
    "reads a specimen": "open(SPECIMEN).read()",
    "reads a solution's bytes": "import os; os.read(os.open(SOLUTION, os.O_RDONLY), 9)",
    "lists the catalogue": "import os; os.listdir(os.path.dirname(SPECIMEN))",
    "reads through a link": "import os; os.symlink(SOLUTION, 'link'); open('link').read()",
    "reads through /proc": "import os; open('/'.join(['/proc', str(os.getppid()), 'root']) + SOLUTION).read()",
    "links a solution": "import os; os.link(SOLUTION, 'mine'); open('mine').read()",
    "moves a solution": "import os; os.rename(SOLUTION, 'mine')",
    "reads a private file": "open(PRIVATE).read()",
    "writes a private file": "open(PRIVATE, 'a').write('x')",
    "empties a private file": "import os; os.truncate(PRIVATE, 0)",
    "removes a private file": "import os; os.remove(PRIVATE)",
    "writes into a folder of others": "import os; open(os.path.dirname(PRIVATE) + '/new', 'w')",
    "makes a folder elsewhere": "import os; os.mkdir(os.path.dirname(PRIVATE) + '/new')",
    "leaves a pipe elsewhere": "import os; os.mkfifo(os.path.dirname(PRIVATE) + '/new')",
    "writes into the course": "import course_lib; open(course_lib.__file__, 'a').write('x')",
    "writes among the packages": "import torch; open(torch.__path__[0] + '/new.py', 'w')",
    "reads the grader's memory": "import os; open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "reads what the server was started with": "import os; open(f'/proc/{os.getppid()}/environ').read()",
    "reads the server's folder": "import os; os.listdir(f'/proc/{os.getppid()}/cwd')",
    "reads a file that the server has open": "import os; open(f'/proc/{os.getppid()}/fd/3').read(1)",
    "makes the server the first to be killed": "import os; open(f'/proc/{os.getppid()}/oom_score_adj', 'w').write('9')",
    "takes another root": "import os; os.chroot('.')",
    "in another thread": "from concurrent.futures import ThreadPoolExecutor as P; P().submit(open, SOLUTION).result()",
    "in a process": "import subprocess; subprocess.run(['cat', SOLUTION], check=True)",
    "in a shell": "import subprocess; subprocess.run(f'echo x >> {PRIVATE}', shell=True, check=True)",
    "while it is loaded": "",
}
SYSTEM_CALLS = {
    "limits the server's files": "import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_NOFILE, (9, 9))",
    "limits the server's time": "import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_CPU, (1, 1))",
    "limits it by a program": "import subprocess as s, os; s.run(['prlimit', f'-p{os.getppid()}', '-n9'], check=True)",
    "slows the server down": "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "takes the server's cores": "import os; os.sched_setaffinity(os.getppid(), {0})",
    "has the server run last": "import os; os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
    "sets the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    **{
        what: f"""
        import ctypes, os, sys
        c, server = ctypes.CDLL(None, use_errno=True), os.getppid()
        if {call} == -1: raise OSError(ctypes.get_errno(), sys.argv)
        """
        for what, call in {
            "traces the server": "c.ptrace(16, server, 0, 0)",
            "seizes the server": "c.ptrace(0x4206, server, 0, 0)",
            "reads the server's memory at once": "c.process_vm_readv(server, None, 0, None, 0, 0)",
            "writes the server's memory": "c.process_vm_writev(server, None, 0, None, 0, 0)",
            "takes a file of the server": "c.syscall(438, os.pidfd_open(server), 0, 0)",
            "watches the machine": "c.syscall(298 if os.uname()[4] == 'x86_64' else 241, bytes(128), -1, 0, -1, 0)",
            "makes namespaces": "c.unshare(0x10000000)",
            "covers a folder": "c.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
        }.items()
    },
}
SIGNALS = {
    "signals it by a descriptor": "import os, signal as s; s.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)",
    "stops the server": "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)",
    "kills the server": "import os; os.kill(os.getppid(), 9)",
    "asks whether the server lives": "import os; os.kill(os.getppid(), 0)",
}


@pytest.mark.skipif(landlock.version() < 1, reason="needs Landlock, which this kernel does not have")
@pytest.mark.parametrize("what", [*OUTSIDE, *SYSTEM_CALLS, *SIGNALS])
def test_an_answer_cannot_touch_what_is_not_its_own(what, tmp_path):
    if what in SIGNALS and landlock.version() < 6:
        pytest.skip("signals are confined from Linux 6.12 on")
    private = tmp_path / "private"
    private.write_text("secret")
    solution = ROOT / "course_lib/lessons/samplers/exercises.py"
    specimen = ROOT / "course_lib/lessons/samplers/answers/shard_indices/right_by_hand.py"
    names = f"SOLUTION, SPECIMEN, PRIVATE = {str(solution)!r}, {str(specimen)!r}, {str(private)!r}\n"
    body = {**OUTSIDE, **SYSTEM_CALLS, **SIGNALS}[what]
    verdict = grade("samplers.shard_indices", names + (answer(body) if body else "open(SOLUTION)" + RIGHT))
    assert verdict.kind is VerdictKind.ERROR, repr(verdict)
    words = {
        "in a process": "CalledProcessError",
        "in a shell": "CalledProcessError",
        "limits it by a program": "CalledProcessError",
        "links a solution": "OSError",
    }
    assert words.get(what, "PermissionError: an answer may read what Python reads") in verdict.headline
    assert [each.name for each in tmp_path.iterdir()] == ["private"]
    assert private.read_text() == "secret"


#: What an answer may not reach: somebody who listens on this machine, and others.
NETWORK = {
    "a port of this machine": "socket.create_connection(TCP)",
    "a port by the other protocol": "socket.create_connection(('::1', TCP[1]))",
    "a port in a process": "import subprocess as s; s.run(['bash', '-c', f'>/dev/tcp/{TCP[0]}/{TCP[1]}'], check=True)",
    "a datagram": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(TCP); s.send(b'x'); s.recv(1)",
    "a socket without a path": "socket.socket(socket.AF_UNIX).connect(chr(0) + NAME)",
    "another machine": "socket.create_connection(('192.0.2.1', 80))",
    "a name": "socket.gethostbyname('example.org')",
    "a page": "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')",
    "packets as they are": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "the network of the server": "import os; os.open(f'/proc/{os.getppid()}/ns/net', 0)",
}


@pytest.mark.skipif(
    not isolation.allowed(), reason="needs namespaces that users may make, which this system refuses"
)
@pytest.mark.parametrize("what", NETWORK)
def test_an_answer_reaches_no_network(what):
    name = f"ddp-course-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as without_a_path:
        without_a_path.bind(f"\0{name}")
        without_a_path.listen()
        body = f"import socket\nTCP, NAME = {tcp.getsockname()}, {name!r}\n{NETWORK[what]}"
        verdict = grade("samplers.shard_indices", answer(body))
        tcp.setblocking(False)
        with pytest.raises(BlockingIOError):
            tcp.accept()
    assert verdict.kind is VerdictKind.ERROR, repr(verdict)
    no_network = "an answer may reach its own ranks, and no other network"
    words = {
        "a port in a process": "CalledProcessError",
        "packets as they are": "PermissionError",
        "the network of the server": "PermissionError",
    }
    assert words.get(what, no_network) in verdict.headline


@pytest.mark.skipif(
    not isolation.allowed(), reason="needs namespaces that users may make, which this system refuses"
)
def test_an_answer_is_not_given_ranks_that_nothing_confines(monkeypatch):
    """It knows where the process is that starts ranks for every notebook, and asks as a kernel would."""
    monkeypatch.delenv(zygote.VARIABLE, raising=False)
    zygote.start_zygote()
    address = os.environ[zygote.VARIABLE]
    asked = zygote.Request(zygote.compatibility_of(os.environ), dict(os.environ), "/", os.getpid())

    def asks():
        mine, theirs = socket.socketpair()
        with theirs:
            assert zygote._sent(address, asked, theirs, 2)
        return mine.recv(1)

    try:
        assert asks(), "a kernel gets ranks"
        body = f"""
        import socket
        from realranks.ranks.codec import decode
        from realranks.ranks.server import zygote
        mine, theirs = socket.socketpair()
        asked = decode(zygote.Request, {encode(asked)!r})
        sent = zygote._sent({address!r}, asked, theirs, 2)
        theirs.close()
        assert False, ("refused", sent, mine.recv(1))
        """
        verdict = grade("samplers.shard_indices", answer(body))
        assert "('refused', True, b'')" in repr(verdict), verdict.details
    finally:
        os.remove(address)
        monkeypatch.delenv(zygote.VARIABLE, raising=False)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="shared memory is no folder here")
@pytest.mark.parametrize(
    "ending",
    ["pass", "os._exit(1)", "os.kill(os.getpid(), 9)", "time.sleep(60)"],
    ids=["returns", "exits", "dies", "hangs"],
)
def test_shared_memory_that_nobody_unlinks_is_removed(ending):
    """By those whom Python itself sends for that: they outlive the rank that has made it by a moment."""
    name = f"ddp-course-test-{os.getpid()}"
    body = f"""
    import os, time
    from multiprocessing import shared_memory
    if not globals().get("made"):
        globals()["made"] = [shared_memory.SharedMemory(create=True, size=10_000)]
        globals()["made"].append(shared_memory.SharedMemory(f"{name}-{{os.getpid()}}", create=True, size=10_000))
        print(globals()["made"][0].name)
    {ending}
    """
    before = set(os.listdir("/dev/shm"))
    grade(Quick(), answer(body))
    until(lambda: not [one for one in {*os.listdir("/dev/shm")} - before if one.startswith(("psm_", name))])


def test_the_oracle_is_out_of_reach():
    verdict = grade(
        "samplers.shard_indices", "import torch\ntorch.randperm = lambda n, **k: torch.arange(n)\n" + RIGHT
    )
    assert verdict.kind is VerdictKind.WRONG
    assert [item.id for item in verdict.misconceptions] == ["not_shuffled"]
    patched = "from torch.utils.data import DistributedSampler as D\nD.__iter__ = lambda self: iter([])\n"
    assert grade("samplers.shard_indices", patched + RIGHT).passed


def test_a_replaced_collective_is_judged_by_what_it_does():
    source = """
import torch, torch.distributed as dist
dist.all_reduce = dist.barrier = lambda *a, **k: None

def evaluate(model, dataset):
    counts = torch.zeros(2)
    for i in range(dist.get_rank(), len(dataset), dist.get_world_size()):
        x, y = dataset[i]
        counts += torch.tensor([float(model(x).argmax() == y), 1.0])
    dist.all_reduce(counts)
    return float(counts[0]) / max(1.0, float(counts[1]))
"""
    verdict = grade("samplers.evaluate", source)
    assert [item.id for item in verdict.misconceptions] == ["not_reduced"]


def test_a_deadlock_names_rank_collective_and_line():
    source = """
import torch, torch.distributed as dist

def evaluate(model, dataset):
    right = torch.zeros(1)
    for i in range(dist.get_rank(), len(dataset), dist.get_world_size()):
        x, y = dataset[i]
        right += float(model(x).argmax() == y)
    if dist.get_rank() != 1:
        dist.all_reduce(right)
    return right / len(dataset)
"""
    before = time.monotonic()
    verdict = grade("samplers.evaluate", source)
    assert time.monotonic() - before < Evaluate.seconds / 2, "it was proved, not waited for"
    assert verdict.kind is VerdictKind.DEADLOCK
    assert "rank 0" in verdict.headline
    assert "all_reduce()" in verdict.headline
    assert "at your answer, line 10" in verdict.headline
    assert any("rank 1" in line and "finished" in line for line in verdict.details)


def test_different_collectives_are_a_deadlock_too():
    source = """
import torch, torch.distributed as dist

def evaluate(model, dataset):
    if dist.get_rank():
        dist.all_gather([torch.zeros(1) for _ in range(dist.get_world_size())], torch.zeros(1))
    else:
        dist.barrier()
    return 0.5
"""
    verdict = grade("samplers.evaluate", source)
    assert verdict.kind in (VerdictKind.DEADLOCK, VerdictKind.ERROR)
    assert "all_gather" in repr(verdict) or "barrier" in repr(verdict)


def test_an_answer_sees_a_folder_of_its_own_that_is_removed():
    source = "import os\nprint(os.getcwd()[::-1], os.getcwd())\nopen('mine.txt', 'w').write('x')\n1 / 0\n"
    verdict = grade("samplers.shard_indices", source)
    reversed_path, shown = verdict.printed.partition("|")[2].split(maxsplit=1)
    folder = reversed_path[::-1]
    assert shown == "<working folder>", "it is another one each time"
    assert folder != os.getcwd()
    assert "ddp-course-answer-" in folder
    assert not os.path.exists(folder)


def test_every_process_of_a_graded_answer_ends():
    grade("samplers.shard_indices", RIGHT)
    # The host of the gang's store sees a closed socket and leaves by itself.
    _, alive = psutil.wait_procs(psutil.Process(warm_up().pid).children(), timeout=20)
    assert alive == []
