"""Lesson 16: what is read from an agent's log, what decides its questions, and the files for clusters."""

import os
import subprocess

import pytest
import yaml

from course_lib.lessons.cluster import lab as cluster
from course_lib.lessons.cluster.lab import (
    MEETINGS,
    Machines,
    Meeting,
    draw_cluster,
    draw_meeting,
    ending,
    file_text,
    last_words,
    pull_cable,
    words_of_rank,
)
from tests.support.outcomes import Run

#: As torchrun 2.13.0 writes it, shortened.
LOG = """\
W1125 19:48:38.1 27 torch/distributed/elastic/multiprocessing/api.py:571] Failed to register signal handlers
[rank0]: Traceback (most recent call last):
[rank0]:   File "/tmp/x/train.py", line 7, in <module>
[rank0]:     dist.all_reduce(torch.ones(1))
[rank0]: RuntimeError: [/__w/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer \
[10.77.0.2]:44711. This is typically caused by a remote worker crashing. Check the logs.
E1125 19:48:39.1 27 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_19:48:39
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 27642)
  error_file: /tmp/logs/job-7_x/attempt_0/0/error.json
  traceback : Traceback (most recent call last):
    File "/tmp/x/train.py", line 10, in main
============================================================

exit code 1"""
MET = "rank 0\n\nexit code 0"
STORE_GONE = """\
torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote crash?

torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. \
See inner exception for details.

exit code 1"""
GAVE_UP = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n\nexit code 1"


def test_the_end_of_a_log_is_the_root_cause_without_what_differs_from_run_to_run():
    assert ending(LOG).splitlines() == [
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 0 (local_rank: 0)",
        "  exitcode  : 1",
        "  error_file: .../attempt_0/0/error.json",
        "  traceback : Traceback (most recent call last):",
        '    File "train.py", line 10, in main',
    ]
    assert ending(LOG.replace("27642)", "27642) ")) == ending(LOG), (
        "torch 2.13 has a place for a signal there"
    )
    killed = ending(LOG.replace("1 (pid: 27642)", "-9 (pid: 27642) (SIGKILL)"))
    assert "  exitcode  : -9 (SIGKILL)\n" in killed
    assert ending(GAVE_UP) == last_words(GAVE_UP) == "RendezvousTimeoutError"
    assert last_words(MET) == ""
    assert last_words(STORE_GONE).endswith(
        "See inner exception for details. DistNetworkError: Failed to recv, got 0 bytes."
    )


def test_a_rank_s_words_are_told_from_its_agent_s():
    assert words_of_rank(LOG) == "RuntimeError: Connection closed by peer"
    assert words_of_rank(MET) == words_of_rank(GAVE_UP) == ""


@pytest.mark.parametrize(
    ("when", "logs", "right"),
    [
        (cluster.first_log_blames(0), [LOG, MET], True),
        (cluster.first_log_blames(1), [LOG, MET], False),
        (cluster.first_log_blames(None), [LOG, MET], False),
        (cluster.first_log_blames(None), [MET, LOG], True),
        (cluster.both_start, [MET, MET], True),
        (cluster.both_start, [MET, LOG], False),
        (cluster.second_is_refused, [MET, LOG], True),
        (cluster.second_is_refused, [GAVE_UP, LOG], False),
        (cluster.second_says("Rendezvous"), [MET, STORE_GONE], True),
        (cluster.second_says("EADDRINUSE"), [MET, STORE_GONE], False),
        (cluster.second_says("Rendezvous"), [GAVE_UP, STORE_GONE], False),
        (cluster.left_after("Ctrl-C"), [{"Ctrl-C": [0, 1], "kill": []}], True),
        (cluster.left_after(), [{"Ctrl-C": [0, 1], "kill": []}], False),
    ],
)
def test_what_comes_of_two_agents_decides(when, logs, right):
    assert when(Run(*logs)) is right


def test_the_file_for_slurm_is_one_that_bash_can_read():
    text = file_text("train.sbatch")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=True).stderr == ""
    assert "--ntasks-per-node=1" in text


def test_the_pods_of_the_file_for_kubernetes_find_each_other():
    service, job = yaml.safe_load_all(file_text("job.yaml"))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    line = container["args"][0]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert f"--nnodes={job['spec']['completions']} " in line
    assert f"--master-addr={job['metadata']['name']}-0.{pod['subdomain']} " in line
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def test_where_both_machines_are_this_one_nothing_is_entered_and_no_cable_is_pulled(monkeypatch):
    here = Machines(("127.0.0.1", "127.0.0.1"))
    here.enter(1)
    assert (here.wire, "{}" in here.via, "realranks" in here.via) == ("lo", True, True)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    for networks in ("", "1,2"):
        monkeypatch.setenv("DDP_COURSE_NETWORKS", networks)
        pull_cable(1)


def test_the_cable_is_pulled_only_in_a_network_of_the_course_s(monkeypatch):
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: started.append(words))
    monkeypatch.setenv("DDP_COURSE_NETWORKS", f"1,{os.readlink('/proc/self/ns/net')[5:-1]}")
    pull_cable(1)
    assert len(started) == 1


def test_pictures_say_what_they_show():
    said = draw_meeting(
        Meeting("another port", "static", (5.0, 9.0), ("1/2 clients joined", "timed out"))
    ).alt
    assert said == "machine a: 1/2 clients joined; machine b: timed out"
    assert "two machines" in draw_cluster().alt.lower()
    assert len(MEETINGS) == 6
