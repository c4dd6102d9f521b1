# %% [markdown]
# # 12 · Elastic training
#
# > *“One GPU of 64 failed at night. `torchrun` is said to be elastic, so why did the job just end? And what becomes of the 63 ranks
# > that are healthy?”*
#
# The more ranks, the more often one of them dies: that is arithmetic, not bad luck. Here you kill ranks of real `torchrun` jobs,
# two launchers playing two machines; you pull one machine's plug; you measure what each failure costs, and put the measured
# numbers into the formula that says how often to save.
#
# **You will be able to** make a script that loses a few steps and not a night, say which of that `torchrun` does and which you do,
# let a job grow and shrink, choose the checkpoint interval, and say what per-step recovery does differently. 60 minutes.
#
# **Before this:** lessons 00, 02 and 03.

# %%
# %load_ext course_lib

# %% [markdown]
# ## What the launcher does, unasked
#
# On every machine runs one **agent**: that is what `torchrun` becomes once it has read its options. It starts the machine's
# **workers** (your ranks), looks after them ten times a second, and meets the other machines' agents in a **rendezvous**. Ask
# for its defaults first:

# %%
# %%ranks 1 --no-init
from torch.distributed.launcher.api import LaunchConfig
from torch.distributed.run import get_args_parser

told = get_args_parser().parse_args(["train.py"])
print(
    "torchrun: restarts",
    told.max_restarts,
    "- looks every",
    told.monitor_interval,
    "s - machines",
    told.nnodes,
)
print("the same as a library: restarts", LaunchConfig.max_restarts)

# %% [markdown]
# That answers the first question. *Zero* restarts: unless you pass `--max-restarts`, the agent ends its workers when one of them
# fails, and then itself (`_invoke_run` in `torch/distributed/elastic/agent/server/api.py`). Only the library's default is 3.
#
# ## A script that can be killed
#
# It trains a small network on made-up data. Five comments mark what makes it fit to be killed at any time. The first part is
# ours: it notes down what happens, and brings about the accidents that this lesson orders.

# %%
ACCIDENTS = """
import gc
import json
import os
import signal
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked worker inherits the agent's handler
FOLDER = Path(__file__).parent
RANK, WORLD, MACHINE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["MACHINE"])


def note(event, **what):
    what |= {"event": event, "time": time.time(), "pid": os.getpid()}
    what |= {"rank": RANK, "world": WORLD, "machine": MACHINE}
    with open(FOLDER / "log", "a") as file:
        file.write(json.dumps(what) + "\\n")


def accident(step):
    while (FOLDER / f"hold {WORLD} ranks at {step}").exists():
        time.sleep(0.01)
    for what, whom in (("kill", os.getpid()), ("unplug", -os.getpgid(0))):
        order = FOLDER / f"{what} machine {MACHINE} at {step}"
        if order.exists() and os.environ["LOCAL_RANK"] == "0":
            order.unlink()  # once
            note(what, step=step)
            os.kill(whom, signal.SIGKILL)
    time.sleep(0.02)  # computing
"""

TRAIN = """
STEPS, EVERY, BATCH = 30, 5, 32
CHECKPOINT = FOLDER / "checkpoint.pt"


def whole_batch(step):
    chance = torch.Generator().manual_seed(step)  # 1. the step decides the data, not how the process came to it
    inputs = torch.randn(BATCH, 8, generator=chance)
    return inputs, inputs.square().sum(1, keepdim=True)


def train():
    note("begin", restarts=int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    step = 0
    if CHECKPOINT.exists():  # 2. every rank loads, whether it is the first start or the tenth
        saved = torch.load(CHECKPOINT)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])  # 3. all that the next step depends on
        step = saved["step"]
    ddp = DistributedDataParallel(net)
    note("ready", step=step)
    while step < STEPS:
        inputs, targets = whole_batch(step)
        accident(step)
        optimizer.zero_grad()
        mine = slice(RANK, None, WORLD)  # 4. a share of the same global batch, however many ranks there are
        loss = (ddp(inputs[mine]) - targets[mine]).square().mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / WORLD
        dist.all_reduce(mean)
        note("step", step=step, loss=mean.item())
        step += 1
        if step % EVERY == 0 and RANK == 0:
            began = time.time()
            saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            with open(FOLDER / "new", "wb") as file:
                torch.save(saved, file)
                file.flush()
                os.fsync(file.fileno())  # also after a power cut: first the bytes, then the name
            os.replace(FOLDER / "new", CHECKPOINT)  # 5. the old one is there until the new one is whole
            note("save", step=step, seconds=time.time() - began)
    note("end", weights=[value for p in net.parameters() for value in p.flatten().tolist()])


try:
    train()
except Exception:  # a peer has gone: say so, and end at once
    traceback.print_exc()
    os._exit(1)
gc.collect()
dist.destroy_process_group()
"""

# %% [markdown]
# Now machines. Each is a process that runs `torchrun`'s own `main` with the options that you would type. One thing is not as on a
# cluster: `--run-path --start-method=fork`. Ordinarily each worker is a new interpreter that imports torch first, which takes seconds.
# Forked workers are there at once. Agents, rendezvous and restarts are the real ones.

# %%
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from course_lib import run_quietly
from course_lib.lab.elastic import events, log_of

OPTIONS = ["--rdzv-backend=c10d", "--rdzv-endpoint=MEET", "--run-path", "--start-method=fork"]
GANG = [*OPTIONS, "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3"]
ALONE = [*OPTIONS, "--nnodes=1", "--nproc-per-node=2", "--max-restarts=1"]
ELASTIC = [*OPTIONS, "--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=3"]
ELASTIC += ["--rdzv-conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"]


def machines(folder, options, number=2, after=None, share_store=False):
    """torchrun on each machine, on machine 1 only once the file `after` is there; their exit codes."""
    import multiprocessing
    import os
    import threading
    import time

    from torch.distributed.run import main

    meet = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]  # a store that runs on no machine

    def torchrun(machine):
        os.setpgid(0, 0)  # agent and workers: what one plug keeps running
        while after and machine and not os.path.exists(after):
            time.sleep(0.01)
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE")  # left by the course, which also launches
        os.environ["MACHINE"] = str(machine)
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = str(int(not share_store))  # see below
        log = os.open(f"{folder}/agent {machine}", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        typed = [option.replace("MEET", meet) for option in options]
        typed += [f"--log-dir={folder}/logs", f"{folder}/train.py"]
        threading.excepthook = lambda _: os._exit(1)
        agent = threading.Thread(target=main, args=(typed,))  # has a short stack: it often looks through it
        agent.start()
        agent.join()

    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=torchrun, args=(machine,)) for machine in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


everything = tempfile.TemporaryDirectory()


def job(name, *orders, script=ACCIDENTS + TRAIN):
    """A folder with a script in it, and orders for accidents."""
    folder = Path(everything.name, name)
    folder.mkdir()
    (folder / "train.py").write_text(script)
    for order in orders:
        (folder / order).touch()
    return str(folder)


# %% [markdown]
# Four jobs start now, side by side: for the most part they wait. What each of them is for, you will read when we come to it.

# %%
pool = ThreadPoolExecutor()


def start(folder, options, *more):
    """The job runs from now on."""
    return pool.submit(run_quietly, machines, folder, options, *more, ranks=1, init=False, timeout=200)


calm = job("calm")
killed = job("killed", "kill machine 1 at 7", "kill machine 0 at 13", "kill machine 1 at 22")
scaled = job("scaled", "hold 2 ranks at 12", "unplug machine 1 at 27")
forgetful = job(
    "forgetful", "kill machine 0 at 7", script=ACCIDENTS + TRAIN.replace("CHECKPOINT.exists()", "False")
)
killing, scaling = start(killed, GANG), start(scaled, ELASTIC, 2, f"{scaled}/checkpoint.pt")
unharmed, forgetting = start(calm, GANG), start(forgetful, ALONE, 1)

# %% [markdown]
# ## From a notebook
#
# `torchrun` is also a library: `elastic_launch` starts the same agent. May the function that it runs be defined in a cell?

# %% claims={"20": "refined"} tags=["notebook-only"]
# %%ranks 1 --no-init
import os
import tempfile
import threading

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def work(factor):
    return factor * int(os.environ["RANK"])


def launched(how, workers):
    config = LaunchConfig(1, 1, workers, run_id="cell", rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    config.start_method, config.max_restarts = how, 0
    results = []

    def launch():
        try:
            results.append(elastic_launch(config, work)(10))
        except ChildFailedError:
            said.seek(0)
            results.append([line.partition(" on ")[0] for line in said if line.startswith("AttributeError")])

    screen = os.dup(2)
    with tempfile.TemporaryFile("w+") as said:
        os.dup2(said.fileno(), 2)  # what the workers complain of
        thread = threading.Thread(target=launch)  # with a short stack, as above
        thread.start()
        thread.join()
        os.dup2(screen, 2)
    return results[0]


print("fork: ", launched("fork", 2))
print("spawn:", launched("spawn", 1))

# %% [markdown]
# (A rank's cell stands to its rank as a notebook's cell to its kernel: in `__main__`, and no file holds it.) With `fork`, yes. `spawn`, the
# library's default, and `forkserver` send only the function's *name*, and the new interpreter has no cell in which to look it up. Put
# the function into a file that can be imported, and every way works.

# %% [markdown]
# ## Three kills
#
# The first of the jobs: two machines with one worker each, 30 steps, a checkpoint every 5. A worker kills itself, with the signal that
# nothing can catch, before step 7, another one before step 13, and again before step 22. What about the machine on which nothing is
# wrong?


# %%
p = predict("12.restarts", folder=killed)

# %%
from course_lib.lab.elastic import processes
from course_lib.notebook.predict import reveal_predictions

out = killing.result()
reveal_predictions(out)
print("worker processes:", {number: processes(killed, number) for number in (0, 1)})

# %%
assert out.values[0] == [0, 0]

began = [note["step"] for note in events(killed, "ready")]
was = [note["step"] for note in events(killed, "kill", rank=None)]
print("killed before step", was, "- went on with step", began[1:])
print("steps done twice:", [step - again for step, again in zip(was, began[1:], strict=True)])

# %% [markdown]
# Every failure ends all workers, on all machines: the group that the others hold has a dead member, and what needs that member will
# never finish. So everybody starts anew, meets in a new group, and goes on from the last checkpoint. “Reverts to the
# checkpoint” is half of the truth: *your script* reverts, in its comments 2 and 3. Here it is without these:

# %% claims={"19": "incomplete"}
assert forgetting.result().values[0] == [0]
print(
    "goes on with step", [note["step"] for note in events(forgetful, "ready")][1:], "and the log looks fine"
)

# %% [markdown]
# What did the three kills cost? Draw the job that was killed, and the curve it leaves behind:

# %%
import matplotlib.pyplot as plt

origin = min(note["time"] for note in log_of(killed))
kills = events(killed, "kill", rank=None)
steps, again = events(killed, "step"), events(killed, "ready")[1:]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained", width_ratios=(3, 2))
left.plot(
    [s["time"] - origin for s in steps],
    [s["step"] for s in steps],
    ".",
    color="#0072B2",
    label="a step of rank 0",
)
for number, (kill, ready) in enumerate(zip(kills, again, strict=True)):
    down = (kill["time"] - origin, ready["time"] - origin)
    left.axvspan(
        *down, color="#E69F00", alpha=0.35, hatch="//", label="nobody trains" if not number else None
    )
    left.annotate(
        f"{kill['step'] - ready['step']} steps\nagain",
        (down[1], ready["step"]),
        (8, -4),
        textcoords="offset points",
        fontsize=8,
        va="top",
    )
downtime = sum(ready["time"] - kill["time"] for kill, ready in zip(kills, again, strict=True))
share = downtime / (steps[-1]["time"] - origin)
left.margins(x=0.14)
left.set(title=f"Three kills: {share:.0%} of the time is restarts", xlabel="seconds", ylabel="step")
left.legend(fontsize=8, loc="upper left")
last = {note["step"]: note["loss"] for note in steps}
assert unharmed.result().values[0] == [0, 0]
right.plot(last.keys(), last.values(), "-", color="#D55E00", lw=4, alpha=0.5, label="three kills")
right.plot([note["loss"] for note in events(calm, "step")], "k.", ms=4, label="no kill")
right.set(title="... and the loss knows nothing of it", xlabel="step", ylabel="loss", yscale="log")
right.legend(fontsize=8)
plt.show()

# %%
same = [note["loss"] for note in events(calm, "step")] == list(last.values())
print("the same loss in every step, to the last bit:", same)
print(
    "the same weights at the end, to the last bit:",
    events(calm, "end")[0]["weights"] == events(killed, "end")[0]["weights"],
)
assert same

# %% [markdown]
# Bit for bit, because all that a step depends on is in the checkpoint or follows from the number of the step. (Dropout and
# augmentation draw random numbers, too: save the generators' states of every rank, [lesson 03](03_samplers.ipynb).)
#
# A good part of the downtime is the rendezvous: an agent that waits there looks once a second whether the others have come
# (`_DistributedRendezvousOpExecutor.run` in `torch/distributed/elastic/rendezvous/dynamic_rendezvous.py`). On a cluster, add imports, a big
# checkpoint, caches to be filled.
#
# ## The store, the second time
#
# One line of `machines` is still unexplained: `TORCH_DISABLE_SHARE_RDZV_TCP_STORE`. Set it to 0, the default. One machine, two workers, one kill.
# The script looks into the store where it is to meet the others *before* it goes there; the second time rank 1 is late, as
# happens to ranks that have more to load.

# %%
MEET = """
from datetime import timedelta

life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
if RANK == 0 and life:
    note("look", addresses=sum("//cpu//" in key for key in store.list_keys()))
while life and RANK == 1 and not (FOLDER / "tried").exists():
    time.sleep(0.01)
try:
    dist.init_process_group("gloo", timeout=timedelta(seconds=0.5 if life else 60))
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
except RuntimeError as error:
    note("error", life=life, text=str(error))
    if life:
        (FOLDER / "tried").touch()
    os._exit(1)
"""

remembering = job("remembering", script=ACCIDENTS + MEET)

p = predict("12.address", folder=remembering)

# %%
reveal_predictions(start(remembering, ALONE, 1, None, True).result())

# %%
from course_lib.lab.elastic import second_life

found = events(remembering, "look")[0]["addresses"]
print("addresses in the store before a new worker has written one:", found)
print("rank 0:", second_life(remembering)[0].partition(" with")[0])

# %% [markdown]
# The store remembers. By default the ranks' store lives in an agent, which keeps it over restarts (`DynamicRendezvousHandler.next_rendezvous` makes it
# once and hands it out again). A comment in `torch/distributed/rendezvous.py` (`_create_c10d_store`) says that there is a new one for
# every retry; on this torch the run above says otherwise. So a restarted gang may read addresses of the dead. What comes of it depends
# on who is late; here we have seen to it that rank 1 is. NCCL's unique id goes through the same store, and people have met the same
# there (PyTorch's issue 135712); not runnable here.
#
# The cure is the variable: with it, rank 0 of every new gang opens a new store. You will also read that you should put
# `TORCHELASTIC_RESTART_COUNT` in front of every key. On one machine that works. On several it need not: every agent counts the
# failures of *its own* workers, and a restart because somebody joins is not counted. The job with two workers, four, two below shows it.
#
# ## How often to save
#
# A checkpoint every 5 steps was a guess. What is the best interval? Say that saving takes *C* seconds, a restart *R*, and
# a failure comes every *M* seconds on average. With *T* seconds between two checkpoints, a failure costs the restart and half an
# interval, again on average. So of each second you lose
#
# $$\text{loss}(T) = \frac{C}{T} + \frac{T/2 + R}{M}, \qquad \text{least at}\quad T = \sqrt{2 C M}.$$
#
# That is Young's formula, of 1974. Note what is not in it: *R*. A slow restart costs you in every failure, but it changes nothing in how often you
# should save. It holds as long as *C*, *T* and *R* are much smaller than *M*.
#
# Put in what your job above has measured, and let it fail once a minute. Beside the formula, replay a long job with drawn failures:

# %%
import random
from itertools import pairwise
from statistics import fmean, median

save_seconds = fmean(note["seconds"] for note in events(killed, "save"))
restart_seconds = downtime / len(kills)
step_seconds = median(b["time"] - a["time"] for a, b in pairwise(steps))
MINUTE = 60.0


def loss(interval, save, restart, mean_between):
    """Seconds lost for each second of training."""
    return save / interval + (interval / 2 + restart) / mean_between


def best_interval(save, mean_between):
    return (2 * save * mean_between) ** 0.5


def replay(interval, save, restart, mean_between, failures=3000):
    """The same from a made-up history: train, save, fail at drawn times, lose what is not saved, restart."""
    chance = random.Random(0)
    useful = spent = 0.0
    for _ in range(failures):
        until = chance.expovariate(1 / mean_between)
        useful += until // (interval + save) * interval
        spent += until + restart
    return spent / useful - 1


figure, axes = plt.subplots(figsize=(7, 3.3), layout="constrained")
every = [step_seconds * 2 ** (k / 4) for k in range(-4, 41)]
measured = (save_seconds, restart_seconds, MINUTE)
axes.plot(every, [loss(t, *measured) for t in every], color="#0072B2", label="the formula")
axes.plot(
    every[::4], [replay(t, *measured) for t in every[::4]], "s", color="#D55E00", mfc="none", label="replayed"
)
axes.axhline(restart_seconds / MINUTE, color="#000000", ls=":", label="the restarts alone")
best = best_interval(save_seconds, MINUTE)
axes.axvline(best, color="#009E73", ls="--", label="the best interval")
axes.set(
    title=f"One failure a minute: save every {best / step_seconds:.0f} steps, lose {loss(best, *measured):.0%} of the time",
    xlabel="seconds between checkpoints",
    ylabel="seconds lost for each second of training",
    xscale="log",
    yscale="log",
)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Far to the right the replay loses more than the formula says: failures also hit the work that is being done again. Near the best
# interval the curve is flat. Twice or half the best costs a quarter more of what saving and redoing cost together, so a guess of the
# right size will do. A wrong size will not.
#
# Now a real job. In 54 days on 16,384 GPUs, Llama 3's pre-training had 419 unexpected interruptions (Grattafiori et al., 2024, §3.3.4).
# Take that rate for each GPU. What a save and a restart cost there we do not know: guess a minute, in which nobody trains, and ten:

# %%
HOURS = 3600
one_gpu = 54 * 24 * HOURS * 16_384 / 419  # seconds between two failures of the same GPU
print(" GPUs   a failure every   save every   lost, formula   lost, replayed")
for gpus in (8, 64, 512, 4096, 16_384):
    between = one_gpu / gpus
    often = best_interval(60, between)
    lost, seen = loss(often, 60, 600, between), replay(often, 60, 600, between)
    print(f"{gpus:5} {between / HOURS:15.1f} h {often / 60:8.0f} min {lost:14.1%} {seen:15.1%}")
    assert abs(seen / lost - 1) < 0.2

# %% [markdown]
# Ten times the GPUs, ten times the failures, and three times the checkpoints. At 16,384 GPUs, our guess loses one second for every six of
# training: 86 % of the time would be effective. The same section of the paper reports *more than 90 %* in those 54 days, so the guess is
# wrong. Which *C* and *R* are cheap enough?

# %%
between = one_gpu / 16_384
print("    C       R   effective")
for save, restart in ((60, 600), (60, 300), (15, 600), (15, 300)):
    effective = 1 / (1 + loss(best_interval(save, between), save, restart, between))
    print(f"{save:3} s {restart:5} s {effective:10.1%}  {'as reported' if effective > 0.9 else 'too little'}")

# %% [markdown]
# The save is the lever: with a restart of ten minutes it may take a quarter of a minute. Three ways down: a cheaper *C* (write in the
# background), a smaller *R* (keep the processes alive), or no restart at all, below.
#
# ## Two workers, four, two
#
# The last of the four jobs may grow: `--nnodes=1:2` says that one machine will do, two are welcome. Its machine 1 comes when the first
# checkpoint is there. In step 27 somebody pulls its plug: agent and workers are gone in the same moment, none of them says goodbye. (It is
# kinder than a power cut: the system still closes the connections of the dead. And at step 12, the first two workers wait for the others,
# so that the run does not depend on how fast your machine is.)

# %%
p = predict("12.joined", folder=scaled)

# %%
out = scaling.result()
reveal_predictions(out)
for note in events(scaled, "ready"):
    print(f"{note['world']} workers from step {note['step']}")

# %%
counts = {note["pid"]: note["restarts"] for note in events(scaled, "begin", rank=None)}
lives = [counts[note["pid"]] for note in events(scaled, "ready", rank=None) if note["machine"] == 0]
print("TORCHELASTIC_RESTART_COUNT in the three lives of machine 0:", lives[::2])
print("the two machines ended with", out.values[0])

# %%
steps, begin = events(scaled, "step"), events(scaled, "step")[0]["time"]
ready = events(scaled, "ready")
stops = [max(s["time"] for s in steps if s["time"] < after["time"]) for after in ready[1:]]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained", width_ratios=(3, 2))
for world, marker, colour in ((2, "o", "#0072B2"), (4, "s", "#D55E00")):
    mine = [s for s in steps if s["world"] == world]
    left.plot(
        [s["time"] - begin for s in mine],
        [s["step"] for s in mine],
        marker,
        ms=4,
        color=colour,
        mfc="none",
        label=f"{world} workers",
    )
for stop, after in zip(stops, ready[1:], strict=True):
    left.axvspan(stop - begin, after["time"] - begin, color="#E69F00", alpha=0.35, hatch="//")
grow, shrink = (after["time"] - stop for stop, after in zip(stops, ready[1:], strict=True))
left.set(title=f"Growing: {grow:.0f} s, losing a machine: {shrink:.0f} s", xlabel="seconds", ylabel="step")
left.legend(fontsize=8)
last = {s["step"]: s["loss"] for s in steps}
right.plot(last.keys(), last.values(), "-", color="#D55E00", lw=4, alpha=0.5, label="2, 4, 2 workers")
right.plot([note["loss"] for note in events(calm, "step")], "k.", ms=4, label="2 workers")
right.set(title="... with the same batches, the same loss", xlabel="step", ylabel="loss", yscale="log")
right.legend(fontsize=8)
plt.show()

# %%
gaps = [abs(last[note["step"]] / note["loss"] - 1) for note in events(calm, "step")]
print("the same loss up to rounding:", max(gaps) < 1e-4)
assert max(gaps) < 1e-4

# %% [markdown]
# Growing is a restart. An agent sees somebody on the waiting list (`num_nodes_waiting`) and stops its healthy workers in the middle of
# what they do. “Membership changes do not count as retries”, says a comment in `_invoke_run`: so the gang of two and the gang of four had
# the same `TORCHELASTIC_RESTART_COUNT`, and keys with that number in front would have been the same keys.
#
# The curve is that of two workers because every step divides *the same* 32 samples, by two or by four (comment 4). A fixed batch *per
# rank* would have doubled the global one, and with it what the learning rate means ([lesson 10](10_accumulation.ipynb)).
#
# Losing a machine takes longer. Its workers' peers noticed at once, since their connections were closed (after a power cut they wait for
# the group's timeout). But in the rendezvous a machine stays a member until its heartbeat has been missing for `keep_alive_interval` × `keep_alive_max_attempt` (5 s × 3 by default). And with fewer machines than are
# welcome, the others wait `last_call_timeout` for more (30 s by default, also at the very start). The job above asked for 1 s × 5, and
# 1 s. Do not go much lower: a machine whose heartbeat is late is struck off the list (`_sanitize` in `dynamic_rendezvous.py`).
#
# > **On GPUs.** When a worker dies beside a living agent, NCCL need not notice: the agent rejoins the rendezvous, and the other agents
# > restart their workers, whatever these wait in (`_invoke_run`). When a whole machine goes, the others' workers must notice by
# > themselves, by an error of NCCL or by the group's timeout, 10 minutes by default (`kProcessGroupNCCLDefaultTimeout` in
# > `ProcessGroupNCCL.hpp`). Read in these files, not run here.
#
# ## A group has one size for life
#
# Why restart the 63 others? Could the group not just get smaller? Ask it:

# %%
# %%ranks 2
import torch
import torch.distributed as dist

try:
    if dist.get_rank() == 0:
        dist.shrink_group([1])
except TypeError as error:
    print("gloo", str(error).partition("' ")[2])

# %% [markdown]
# A group is a set of connections made for exactly these members. gloo joins every pair of them. NCCL makes more of it: a *communicator*
# is created for a number of ranks (`numRanks` in `NCCLComm::create`, `torch/csrc/distributed/c10d/NCCLUtils.hpp`), with rings and trees laid
# through them, and a collective is a kernel on each GPU that waits for its neighbours. When one is missing, the others' kernels wait.
#
# “NCCL groups cannot resize” is not the whole truth any more: `shrink_group` makes a *new*, smaller communicator out of what is left of
# the old one, where NCCL can (`ProcessGroupNCCL::supportsShrinking`; that needs GPUs, so no cell shows it). For growing, this torch
# has no such function. You make a new group, and for that everybody must know who is in it. Finding that out is the agents' work, and they
# do it between two lives of the workers.
#
# ## Without a restart
#
# But making a group is quick. What took seconds above was what is around it. So let the *processes* live. Three ranks train;
# rank 2 dies in step 5; a spare, rank 3, comes in before step 8. One thing is simpler than in reality: who belongs to which group is
# written down beforehand.


# %%
def per_step(steps=12, dies_at=5, joins_at=8):
    import os
    import signal
    import time

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    me = int(os.environ["RANK"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    quorums = [[0, 1, 2], [0, 1], [0, 1, 3]]
    torch.manual_seed(me)  # whoever comes has other weights
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    step, seconds, done = 0, 0.0, []

    def meet(number):
        members = quorums[number]
        if dist.is_initialized():
            dist.destroy_process_group()
        keys = dist.PrefixStore(f"quorum {number}", store)  # for every group its own: no stale addresses
        dist.init_process_group("gloo", store=keys, rank=members.index(me), world_size=len(members))
        now = torch.tensor(step)
        dist.broadcast(now, src=0)
        # DDP's constructor copies rank 0's weights: the newcomer gets them from a living peer, not from a file.
        return members, DistributedDataParallel(net), now.item()

    if me == 3:
        store.wait(["wanted"])
    members, ddp, step = meet(2 if me == 3 else 0)
    while step < steps:
        if step == joins_at and len(members) == 2:
            store.set("wanted", "")
            ddp = None
            members, ddp, step = meet(2)
        if me == 2 and step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        batch = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        try:
            ddp(batch[members.index(me) :: len(members)]).square().mean().backward()
            together = True
        except RuntimeError:
            together = False
        if not together:  # after the except block: its traceback would keep the old group alive
            begin = time.perf_counter()
            ddp = None
            members, ddp, step = meet(1)
            seconds = time.perf_counter() - begin
            continue
        optimizer.step()
        done.append(step)
        step += 1
    ddp = None
    dist.destroy_process_group()
    return {"done": done, "seconds": seconds, "weights": net.weight.flatten().tolist()}


p = predict("12.survivors")

# %%
survived = run_quietly(per_step, ranks=4, init=False)
reveal_predictions(survived)
for rank, seen in survived.values.items():
    print(f"rank {rank} did the steps", seen["done"])

# %%
assert survived.kind == "died"


def alone():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(12):
        optimizer.zero_grad()
        batch = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        net(batch).square().mean().backward()
        optimizer.step()
    return net.weight.flatten().tolist()


right = run_quietly(alone, ranks=1).values[0]
far = max(
    abs(a - b) for seen in survived.values.values() for a, b in zip(seen["weights"], right, strict=True)
)
print("all end with the weights of one process that never failed:", far < 1e-5)
assert far < 1e-5

# %%
figure, axes = plt.subplots(figsize=(7, 1.9), layout="constrained")
in_place = survived.values[0]["seconds"]
bars = {"all workers\nrestart": restart_seconds, "a new group,\nthe same processes": in_place}
axes.barh(list(bars), list(bars.values()), color=["#E69F00", "#009E73"], hatch="//", edgecolor="black")
axes.set(
    title=f"Processes that stay: training goes on {restart_seconds / in_place:.0f} times sooner",
    xlabel="seconds (logarithmic)",
    xscale="log",
    xlim=(1e-3, None),
)
axes.invert_yaxis()
plt.show()

# %% [markdown]
# This is what per-step recovery projects do, in small. **torchft** asks a server (the *lighthouse*) before every step who is there,
# makes a new group when that has changed, lets all agree after backward whether the step counts (`should_commit`), and sends a
# newcomer weights *and optimizer state* from a living replica. **Horovod Elastic** keeps the last committed state in every worker's
# memory and rolls back to that. Both need replicas. With DDP every survivor has the whole model; when a replica is spread over eight
# GPUs, losing one GPU loses that replica. And on GPUs, somebody must first `abort` the communicator in which the survivors are
# stuck.
#
# None of them replaces the checkpoint: some failures take all replicas.
#
# ## What goes wrong in real life
#
# - **“It did not restart.”** `--max-restarts` was left out, or was used up by a bug that fails in every life.
# - **It restarts, and trains from step 0.** The script does not load.
# - **It restarts and hangs in `init_process_group`.** The store remembers. `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`.
# - **The checkpoint cannot be read.** The worker died while it wrote. Write beside, then `os.replace`.
# - **After a restart, one machine is at step 0.** Rank 0 writes, every rank loads: `FOLDER` must be on a file system that all machines
#   share. Here two “machines” are one, so any folder does.
# - **Everything ends with machine 0.** With `--rdzv-backend=c10d` the store lives in the agent at `--rdzv-endpoint`. If that machine
#   goes, so does the rendezvous. Let a process on a machine that does not train serve the store, as `machines` does.
# - **A rank hangs, and nothing restarts.** The agent looks at processes, not at progress. A hang becomes a failure only through the
#   group's timeout ([lesson 02](02_process_groups.ipynb)). Do not leave it at gloo's half hour: set it a little above your longest
#   honest pause ([lesson 05](05_stragglers.ipynb)).
#
# ## Rule of thumb
#
# > `torchrun` restarts processes; going on is your script's work. Let the step number decide the data and the checkpoint hold the
# > rest, write it aside and rename it, divide a fixed global batch, and save every √(2 · cost of a save · time between failures)
# > seconds.
#
# ## Your turn
#
# Two tasks wait in [exercises/12_elastic](../exercises/12_elastic.ipynb): choose the interval from a job's log, and a training
# function that is killed three times, once while it saves, and must not show it.
#
# ## Further reading
#
# - `torch/distributed/elastic/agent/server/api.py`: `_invoke_run` is the agent's loop, 70 lines.
# - PyTorch, *torchrun (Elastic Launch)* in the documentation; for what may be changed about the rendezvous, the docstring of
#   `create_handler` in `torch/distributed/elastic/rendezvous/dynamic_rendezvous.py`.
# - Young, *A first order approximation to the optimum checkpoint interval*, 1974; Daly, 2006, for when failures are frequent.
# - The documentation of torchft, for per-step recovery.
#
# **Next:** [lesson 13](13_debugging.ipynb), *Debugging a hang*. Or back to the [index](index.ipynb).
