# %% [markdown]
# # 02 · Process groups and init
#
# > *“`init_process_group` just sits there. No error, no output, four processes at zero percent. Which of them is it waiting
# > for?”*
#
# Before the first gradient is averaged, some processes must find each other. It takes a few milliseconds and four
# environment variables, and when one of the four is wrong, it may take half an hour and tell you a number. In this lesson you
# see what is written where, start real `torchrun`s, and break the start in the ways that people do.
#
# **You will be able to** say what rank, local rank and world size are and who sets them, choose a backend, make smaller
# groups without a deadlock, read the error of a start that failed, and end a process group properly. 40 minutes.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib

# %% [markdown]
# ## Four processes that know three numbers
#
# `--no-init` gives you the ranks without the process group. Each has been told who it is, and has spoken to nobody yet:

# %%
# %%ranks 4 --no-init
import os

import torch
import torch.distributed as dist

print({name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")})
dist.is_initialized()

# %% [markdown]
# They are environment variables, nothing else. Now let them meet:

# %%
# %%ranks
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
total.item()

# %% [markdown]
# With no other word, `init_process_group` means `init_method="env://"`, and that reads **four** variables: `RANK`, `WORLD_SIZE`,
# `MASTER_ADDR`, `MASTER_PORT` (`_env_rendezvous_handler` in `torch/distributed/rendezvous.py`). `LOCAL_RANK` is not among them:
# the group does not need it. You do, to choose your GPU.
#
# ## The store: a dictionary that waits
#
# Address and port of the master are those of a **store**: a table of keys and values that all ranks can reach. It can do one
# thing that a dictionary cannot: `get` waits until somebody has `set` the key.

# %%
# %%ranks
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
rank = dist.get_rank()
store.set(f"lesson/{rank}", f"house {rank}")
[store.get(f"lesson/{other}").decode() for other in range(4)]

# %% [markdown]
# That is all of a **rendezvous**: write down where you live, read where the others live, connect. gloo does just this with
# one key per rank. Most of what goes wrong at the start is a key that nobody writes, a key that two write, or a key that
# was written yesterday.
#
# Where the store is, a URL says. Three kinds, one group each:

# %%
import tempfile
from pathlib import Path

from course_lib.running import run_quietly


def meet(folder):
    import os

    import torch
    import torch.distributed as dist

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    master = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
    sums = {}
    for url in ("env://", f"tcp://{master}", f"file://{folder}/store"):
        dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world_size)
        x = torch.ones(1)
        dist.all_reduce(x)
        sums[url.partition("/")[0]] = x.item()
        dist.destroy_process_group()
    return sums


with tempfile.TemporaryDirectory() as folder:
    out = run_quietly(meet, folder, ranks=4, init=False)
    left = list(Path(folder).iterdir())
for rank, sums in out.values.items():
    print("rank", rank, sums)
print("left of the file:", left)

# %% [markdown]
# - `env://`: a TCP store, its address from the environment. The one to use: the script does not know where it runs.
# - `tcp://host:port`: the same store, its address in the script.
# - `file://path`: a file that all can see. No port that could be taken; but a file can be left over.
#
# ## torchrun: who says who is who
#
# Somebody has to set these variables, differently in every process. That is what a launcher is for. Two ranks now play two
# **machines**: each starts a real `torchrun`, which is the function `main` of `torch/distributed/run.py`, and tells it to start
# two processes. Predict first. The third process in the row, the first one on the second machine:

# %%
import json
import socket


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def third(name):
    """What the third process has noted down."""
    return json.loads(Path(folder, "rank2").read_text())[name]


p = predict(
    "Two machines with two processes each. RANK and LOCAL_RANK of the first process on the second machine?",
    {
        "0 and 2: RANK begins anew on every machine": lambda _: third("RANK") == "0",
        "2 and 0: LOCAL_RANK begins anew on every machine": lambda _: (
            third("RANK") == "2" and third("LOCAL_RANK") == "0"
        ),
        "2 and 2: they are the same": lambda _: third("RANK") == third("LOCAL_RANK"),
    },
)

# %% claims={"43": "wrong"}
SCRIPT = """
import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
told = {**os.environ, "--local_rank": parser.parse_args().local_rank}
with open(os.path.join(os.path.dirname(__file__), "rank" + os.environ["RANK"]), "w") as file:
    json.dump(told, file)
"""


def launch(module, folder, *options):
    """What `python -m module options script.py` does, in a process of its own: its exit code and what it wrote."""
    import importlib
    import multiprocessing
    import os
    from concurrent.futures import ThreadPoolExecutor

    machine = os.environ["RANK"]
    log = os.path.join(folder, "log" + machine)

    def launcher():
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE")  # left by the course, which also launches
        for fd in (1, 2):
            os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), fd)
        arguments = [*options, "--node-rank=" + machine, os.path.join(folder, "script.py")]
        main = importlib.import_module(module).main
        with ThreadPoolExecutor(1) as pool:  # with a short stack: the agent looks through it
            pool.submit(main, arguments).result()

    process = multiprocessing.get_context("fork").Process(target=launcher)
    process.start()
    process.join()
    with open(log) as file:
        return process.exitcode, file.read()


with tempfile.TemporaryDirectory() as folder:
    Path(folder, "script.py").write_text(SCRIPT)
    options = ("--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}")
    out = run(lambda *what: launch(*what)[0], "torch.distributed.run", folder, *options, ranks=2, init=False)
    seen = [json.loads(Path(folder, f"rank{number}").read_text()) for number in range(4)]

names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "--local_rank")
print(*names)
for told in seen:
    print(*(str(told[name]).ljust(len(name)) for name in names))

# %% [markdown]
# `RANK` counts over all machines; `LOCAL_RANK` begins anew on each, and is, by custom, the number of your GPU there;
# `GROUP_RANK` is the machine; `WORLD_SIZE` is the number of all processes, whatever hardware they run on. On one machine `RANK`
# and `LOCAL_RANK` are equal, and that is how scripts that mix them up pass their tests.
#
# Look at the last column. Older tutorials read the local rank from an option `--local_rank`. `torchrun` passes no such option:
# the script gets its default, on every process, and no error. The launcher that did pass it was `torch.distributed.launch`:

# %% claims={"42": "outdated", "43": "wrong"}
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "script.py").write_text(SCRIPT)
    code, log = run_quietly(
        launch,
        "torch.distributed.launch",
        folder,
        "--nproc-per-node=2",
        "--master-port=0",
        ranks=1,
        init=False,
    ).values[0]

print("exit code", code)
told = [line[max(line.find("FutureWarning"), 0) :] for line in log.splitlines() if "Warning:" in line]
told += [line.rpartition("=")[0] for line in log.splitlines() if "error:" in line]
print(*dict.fromkeys(told), sep="\n")

# %% [markdown]
# Deprecated, and since torch 2.0 it says `--local-rank`, with a hyphen, which `argparse` does not take for `--local_rank`
# (the docstring of `torch/distributed/launch.py` warns of it). One line works with both: `int(os.environ["LOCAL_RANK"])`.
#
# `torchrun` sets more than the group needs:

# %%
import os

before = {*os.environ, "TORCH_FR_BUFFER_SIZE"}  # the last one is the course's
told = [name for name in seen[0] if name.startswith(("MASTER", "TORCH")) and name not in before]
print(*sorted(told), sep="\n")

# %% [markdown]
# `TORCHELASTIC_RESTART_COUNT` is for lesson 12, `TORCH_NCCL_ASYNC_ERROR_HANDLING` comes back below, and
# `TORCHELASTIC_USE_AGENT_STORE` says that `torchrun` itself holds the store. So with `torchrun` it stays when rank 0 dies;
# without, rank 0 holds it (`_create_c10d_store` in `rendezvous.py`).
#
# ## mp.spawn: half a launcher
#
# The other way you will meet is `torch.multiprocessing.spawn`, in the script itself. “It gives each process its rank and its
# GPU.” Here is all that it gives. (`start_processes` is what `spawn` calls; with `fork`, which spares us the import of torch.)

# %% claims={"24": "incomplete"}
# %%ranks 1 --no-init
import os

import torch.multiprocessing as mp

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
for name in NAMES:  # the course sets some of them for its ranks
    os.environ.pop(name, None)


def process(index, queue):
    queue.put((index, [name for name in NAMES if name in os.environ]))


queue = mp.get_context("fork").SimpleQueue()
mp.start_processes(process, args=(queue,), nprocs=2, start_method="fork")
print("each got its index, and of the variables these:", sorted(queue.get() for _ in range(2)))
print("with nprocs=0:", mp.spawn(process, args=(queue,), nprocs=0))

# %% [markdown]
# An index, and nothing else: no variable, no GPU. The index is the rank as long as there is one machine, and the GPU is
# yours to set (`torch.cuda.set_device(index)`).
#
# And mind the last line. Asked for no processes, `spawn` starts none and is content. Samples on the web like to ask for as
# many as there are GPUs. One such sample, in an article on DDP problems, is built like this. The doctor runs it as it stands,
# and then with one repair more each time:

# %% claims={"23": "wrong"}
from concurrent.futures import ThreadPoolExecutor

from course_lib.scripts.examine import examine

SAMPLE = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "FREE"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = DistributedDataParallel(torch.nn.Linear(10, 10))
    model(torch.ones(4, 10)).sum().backward()
    print("trained")
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(train, args=(count,), nprocs=count)
"""


def ask_doctor(name, text, ranks=2):
    """Run a script under the doctor's eyes; its examination."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, f"{name}.py")
        script.write_text(text.replace("FREE", str(free_port())))
        return examine(str(script), ranks=ranks)


os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the sample counts GPUs: here it finds none, as on a laptop
repairs = {
    "as it stands": ("", ""),
    "on two processes": ("torch.cuda.device_count()", "2"),
    "with import os": ("import torch\n", "import os\n\nimport torch\n"),
    "with gloo": ("nccl", "gloo"),
}
texts, text = [], SAMPLE
for old, new in repairs.values():
    text = text.replace(old, new, 1) if old else text
    texts.append(text)
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(ask_doctor, ["sample"] * 4, texts))
for name, examination in zip(repairs, found, strict=True):
    errors, diagnosis = examination.outcome.errors, examination.outcome.diagnosis
    said = (
        errors[0].message.splitlines()[0]
        if errors
        else diagnosis.summary
        if diagnosis
        else "trained, no fault found"
    )
    print(f"{name:17}", "NCCL needs GPUs, and a torch built for them" if "nccl" in said.lower() else said)
assert [examination.sound for examination in found] == [False, False, False, True]

# %% [markdown]
# (The first line is the doctor's own: it has found nobody to watch. Started by hand, the sample ends without a word.) Read the
# number of processes from the launcher, not from the hardware, and a script runs on a laptop too.
#
# ## Backends: which one when
#
# You will read: gloo for several GPUs in one machine, NCCL for several machines. Ask torch what *it* takes, by the device
# that the tensors are on:

# %%
p = predict(
    "Several GPUs in one machine. Which backend does torch take, if you do not name one?",
    {
        "gloo": lambda out: out.values[0]["cuda"] == "gloo",
        "NCCL": lambda out: out.values[0]["cuda"] == "nccl",
        "it depends on the number of machines": lambda out: "machines" in out.values[0],
    },
)

# %% claims={"22": "wrong"}
# %%ranks 2 --no-init --predicted --as out
import torch.distributed as dist

print("can carry:", {name: dist.Backend.backend_capability[name] for name in ("gloo", "nccl")})
{device: dist.get_default_backend_for_device(device) for device in ("cpu", "cuda")}

# %% [markdown]
# The device decides, and nobody asks how many machines there are (`Backend.default_device_backend_map` in
# `torch/distributed/distributed_c10d.py`). CUDA tensors: **NCCL**, in one machine or in a hundred. CPU tensors: **gloo**, NCCL
# cannot carry them at all. gloo takes CUDA tensors, too; this course falls back on it where there are more ranks than GPUs,
# which NCCL refuses. (How fast NCCL is, a lesson that has to run without GPUs cannot show.)
#
# Leave the name out, and torch looks at the machine. It finds the right one, but `get_backend()` does not tell you. (Where
# torch finds a GPU, it takes NCCL *alone*, `cuda:nccl`, and collectives on CPU tensors then fail. The cell hides GPUs from
# its ranks, so that it shows the same on every machine.)

# %%
# %%ranks
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
dist.init_process_group()
print(dist.get_backend(), "/", dist.get_backend_config())
dist.barrier()  # so soon after the start: who destroys a group that others still join leaves them waiting
dist.destroy_process_group()

# %% [markdown]
# ## One GPU per rank
#
# On GPUs a rank takes its GPU before the first collective (DDP's constructor has some), and tells the group and DDP:
#
# ```python
# device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
# torch.cuda.set_device(device)                        # without it, every rank uses GPU 0
# dist.init_process_group("nccl", device_id=device)    # connects at once, and barrier() need not guess the GPU
# model = DistributedDataParallel(model.to(device), device_ids=[device])
# ```
#
# (That needs GPUs, so it is not a cell; what `device_id` does is in the docstring of `init_process_group`.) `device_ids`
# is not harmless where it does not apply, and it is not a list for several devices either:

# %% claims={"44": "incomplete", "47": "outdated"}
# %%ranks
import torch

dist.init_process_group("gloo")
for ids in (None, [0], [0, 1]):
    try:
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), device_ids=ids)
        print(ids, "works")
    except ValueError as error:
        print(ids, str(error).partition(", but got")[0])

# %% [markdown]
# For a model on the CPU: leave it out. A list of several devices, with a copy of the model on each, was a thing once, and what
# DDP's forward then synchronised between the copies is still described in places. It is gone: one process, one copy. So is the
# use of `output_device`: the constructor checks and stores it, no forward reads it (`torch/nn/parallel/distributed.py`).
#
# > **On GPUs.** `CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc-per-node=2 train.py` hides all GPUs but these two and numbers them
# > from 0, so `LOCAL_RANK` fits as it is, and two jobs can share a machine. (CUDA's documentation; not run here.)
#
# ## Break it: a rank that does not come
#
# Now the question from the top. Rank 2 believes that it trains alone.

# %%
p = predict(
    "Rank 2 never calls init_process_group. What do ranks 0, 1 and 3 say?",
    {
        "an error at once: rank 2 is missing": "raises",
        "nothing: they wait": "hang:0,1,3",
        "nothing: they begin without it": "ok",
    },
)

# %% claims={"59": "incomplete"}
# %%ranks 4 --no-init --fresh --predicted
import os

import torch.distributed as dist

if os.environ["RANK"] != "2":
    dist.init_process_group("gloo")

# %% [markdown]
# They wait for a key, `timeout` long: 30 minutes, unless you say otherwise. Say 0.3 seconds, ask for two ranks where there is
# one, and see what torch itself has to say:

# %%
# %%ranks 1 --no-init --fresh
from datetime import timedelta

import torch.distributed as dist

try:
    dist.init_process_group("gloo", rank=0, world_size=2, timeout=timedelta(seconds=0.3))
except dist.DistStoreError as error:
    print(str(error).replace("/group/0/1", ""))  # the corner of the store that the course has put us in

# %% [markdown]
# It looks like noise, and it is the answer: the number at the end of the key is the rank that has not come. Other stages of the
# start have words of their own (“1/2 clients joined” when the store waits for its clients, “Connect timeout” when gloo
# connects), all with the same meaning: somebody is not there.
#
# ## Every way to start wrong
#
# Two of them you have seen: a rank that does not come, and NCCL without a GPU. Here are four more, each in a script that the
# doctor runs (`ddp-course doctor script.py`):

# %% claims={"26": "holds", "59": "incomplete"}
BROKEN = {
    "port taken": """
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:TAKEN", rank=rank, world_size=2)

if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
""",
    "wrong world size": """
import os
import torch.distributed as dist

os.environ["WORLD_SIZE"] = "4"  # from another machine's job script
dist.init_process_group("gloo")
""",
    "two ranks 0": """
import torch.distributed as dist

dist.init_process_group("gloo", rank=0, world_size=2)  # rank=local_rank, on the second machine
""",
    "not cleaned up": """
import torch.distributed as dist

def fit():
    dist.init_process_group("gloo")

fit()
fit()
""",
}

with socket.create_server(("127.0.0.1", 0)) as somebody, ThreadPoolExecutor(4) as pool:
    taken = str(somebody.getsockname()[1])
    texts = [text.strip().replace("TAKEN", taken) for text in BROKEN.values()]
    found = list(pool.map(ask_doctor, ["start"] * 4, texts))
for name, examination in zip(BROKEN, found, strict=True):
    print(f"{name}: {examination.outcome.kind.value}\n    {examination.outcome.diagnosis.summary}")
stranger = found[0].outcome.waiting
print("port taken, rank 1:", stranger[1].state, "in", stranger[1].call)

# %% [markdown]
# Two of the four say nothing by themselves, until the timeout. A port that is taken is an error, but only on rank 0: the other
# rank has reached *somebody* at that address, and waits for the answer of a stranger. On one machine `torchrun` chooses a free
# port, unless you name one (`run` in `torch/distributed/run.py`), and everywhere it sets the numbers: most of this list cannot
# happen to a script that leaves them alone.
#
# ## Yesterday's file
#
# `file://` has no port to be taken. It has a file, and the file is removed by the last rank that lets go of it. A run that is
# killed lets go of nothing:


# %%
def killed(url):
    import os

    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=url, rank=int(os.environ["RANK"]), world_size=2)
    dist.barrier()
    os._exit(1)


def next_run(url):
    import os
    import time
    from datetime import timedelta

    import torch.distributed as dist

    failed = url.removeprefix("file://") + ".failed"
    if os.environ["RANK"] == "0":
        while not os.path.exists(failed):  # rank 0 is late
            time.sleep(0.02)
        return
    try:
        dist.init_process_group("gloo", init_method=url, rank=1, world_size=2, timeout=timedelta(seconds=0.2))
    finally:
        open(failed, "w").close()


with tempfile.TemporaryDirectory() as folder:
    url = f"file://{folder}/store"
    run_quietly(killed, url, ranks=2, init=False)
    print("left behind:", [path.name for path in Path(folder).iterdir()])
    out = run_quietly(next_run, url, ranks=2, init=False)
print(out.kind.value, "on rank", *out.errors)
print(out.diagnosis.summary)

# %% [markdown]
# Rank 1 does not wait for rank 0. It finds an address of rank 0 at once, yesterday's, and calls where nobody lives. When both
# start together, it is a race. A name that nobody has used before (the job's number, `tempfile`) is the cure; the same goes
# for every store that outlives a run.
#
# ## Smaller groups
#
# A collective need not take all ranks. `new_group` makes a group of some, and DDP takes one as `process_group`. “To
# synchronise less often, let DDP work in smaller groups”, one reads. Two pairs of ranks, one DDP model, three steps:

# %% claims={"40": "incomplete"}
# %%ranks 4 --fresh
import torch
import torch.distributed as dist

from course_lib.watch import compare

rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]

torch.manual_seed(0)
net = torch.nn.Linear(6, 1, bias=False)
model = torch.nn.parallel.DistributedDataParallel(net, process_group=pairs[rank // 2])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(rank)  # other data on every rank
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    optimizer.step()
seen = compare(net)
assert not seen.equal
seen

# %% [markdown]
# Two pairs are two trainings. Each pair synchronises as often as before, at *every* step, and with the other pair never. Less
# often is another thing: it takes somebody who brings the pairs together now and then (lesson 05).
#
# What groups are really for is a model that is split in two directions. The ranks form a grid, counted along the rows: of four
# ranks, 0 and 1 are the first row, 0 and 2 the first column. Each rank is in two groups, its row and its column, and neither of
# them holds all ranks.
#
# ## Everybody calls new_group
#
# PyTorch's manual says that *all* ranks must call `new_group`, also those that will not be members. Everybody forgets it
# once. What is the punishment?

# %%
p = predict(
    "Of three ranks only 0 and 1 call new_group([0, 1]), and all_reduce in it. What happens?",
    {
        "they wait for rank 2": "hang",
        "an error": "raises",
        "nothing bad: the sum is right": "ok",
    },
)

# %%
# %%ranks 3 --fresh --predicted
import torch
import torch.distributed as dist

rank = dist.get_rank()
x = torch.tensor([float(rank)])
if rank < 2:
    pair = dist.new_group([0, 1])
    dist.all_reduce(x, group=pair)
x.item()

# %% [markdown]
# No punishment, with gloo. The old barrier at the end of `new_group` is only there if you ask for it
# (`TORCH_DIST_INIT_BARRIER=1`), so the two found each other, and 0 + 1 = 1. The bill comes with a later group, when the ranks
# have not made the same number of groups before it.
#
# > **On GPUs.** The manual is to be taken at its word where the default group is bound to a GPU (`device_id=`). There
# > `new_group` splits NCCL's communicator (`ncclCommSplit`), and *all* ranks have to call that, members or not: a
# > rank that leaves `new_group` out leaves the members in the split. (Read in `_new_process_group_helper`,
# > `distributed_c10d.py`, not run here.)
#
# Here all three make the same two groups, but rank 2 begins with its own:


# %%
def make():
    import torch.distributed as dist

    groups = [[0, 1, 2], [2]]
    if dist.get_rank() == 2:
        groups.reverse()
    return [dist.new_group(ranks) for ranks in groups]


out = run_quietly(make, ranks=3)
print(out.kind.value, "-", out.diagnosis.summary)
print("What to do:", out.diagnosis.advice)

# %% [markdown]
# A group has no name but a number: how many this rank has made before, the default group first (`_process_group_name` in
# `distributed_c10d.py`). Under that number it writes its addresses into the store. For ranks 0 and 1 the group of all is
# number 1, for rank 2 it is number 2: they wait under different keys, in a line that has no mistake in it. A group that some
# ranks have left out, like the pair above, shifts the numbers in the same way.
#
# So make groups in one place, at the start, in a loop that is the same on every rank, and keep those that you are in:

# %%
# %%ranks 4 --fresh
import torch
import torch.distributed as dist

for ranks in ([0, 1], [2, 3]):
    group = dist.new_group(ranks)
    if dist.get_rank() in ranks:
        mine = group
x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x, group=mine)
x.item()

# %% [markdown]
# (`use_local_synchronization=True` is the exception: such a group is named after its members and the number of groups they
# have, and only they call.)
#
# ## Timeouts
#
# The timeout you give at the start is for the default group alone. A new group has its own, and if you do not say which,
# it is not the one you have chosen:

# %%
# %%ranks 2 --no-init --fresh
import os
import re
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
impatient = dist.new_group(timeout=timedelta(seconds=0.4))
for group in (dist.group.WORLD, dist.new_group(), impatient):
    print(group._get_backend(torch.device("cpu")).options._timeout)

# %% [markdown]
# “`NCCL_ASYNC_ERROR_HANDLING` and `NCCL_BLOCKING_WAIT` decide what happens when it is over.” Set both, and let rank 1 come too
# late. And look up how NCCL's part of torch calls them by now:

# %% claims={"41": "outdated"}
# %%ranks
os.environ["NCCL_BLOCKING_WAIT"] = os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"
dist.barrier()
if dist.get_rank() == 1:
    dist.recv(torch.empty(1), src=0)  # comes when rank 0 has given up
try:
    dist.all_reduce(torch.ones(1), group=impatient)
except RuntimeError as error:
    timed_out = "Timed out waiting" in str(error)
    print("too late" if dist.get_rank() == 1 else "Timed out" if timed_out else "another error")

if dist.get_rank() == 0:
    dist.send(torch.ones(1), dst=1)
    header = Path(torch.__file__).parent / "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
    found = re.findall(r'"(\w*NCCL_(?:ASYNC_ERROR_HANDLING|BLOCKING_WAIT))"', header.read_text())
    print(*sorted(set(found), reverse=True), sep="\n")

# %% [markdown]
# gloo knows its timeout and none of these variables: rank 0 gave up after 0.4 seconds, with an error. The group is done for
# after that, as rank 1 found out when it came. For NCCL the names begin with `TORCH_` now, and the old ones are read as second
# names. `torchrun` itself switches the error handling on, as you saw in its list. What NCCL then does is not runnable here.
#
# Long timeouts are no safety: they only put off the moment at which you hear of it. Choose one a little longer than your
# slowest honest step (the first batch, an evaluation on one rank, a checkpoint).
#
# ## The end
#
# “`destroy_process_group` is crucial.” What does it do? gloo keeps threads, so count them, in a process that tidies up
# and in one that still holds a DDP model while it does:


# %% claims={"25": "refined"}
def count_threads(model_first):
    import builtins
    import gc
    import os

    import torch
    import torch.distributed as dist

    def more():
        return len(os.listdir("/proc/self/task")) > before

    before = len(os.listdir("/proc/self/task"))
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    training = more()
    if not model_first:
        builtins.somewhere = model  # a trainer, a closure, a traceback: something that lives on
    del model
    gc.collect()
    dist.destroy_process_group()
    return {"threads of gloo while training": training, "at the end": more()}


for model_first in (True, False):
    out = run_quietly(count_threads, model_first, ranks=2, init=False)
    print("the model is gone before" if model_first else "the model is still there", out.values[0])

# %% [markdown]
# `destroy_process_group` shuts the group down and forgets it. The threads end when nobody holds the group any more, and
# the DDP model holds it. A process that ends while they run may end badly: C++ says “terminate called without an active
# exception”, after your last line, on some runs. (A matter of luck, so no cell shows it.) Hence the order at the end of a script:
# drop the model, then destroy the group. With gloo on every rank, also after an exception, and with no barrier in it: a
# rank that has failed must not wait for the others.
#
# > **On GPUs.** With NCCL only the good path ends like this. There `destroy_process_group` waits until the kernels
# > that are under way have ended (`ProcessGroupNCCL::shutdown`, `ProcessGroupNCCL.cpp`), and a collective that the
# > others never join does not end: in a `finally`, a rank that has failed would stand there, its traceback unprinted,
# > and `torchrun` would not know. After an exception let the process end; `torchrun` ends the others. (Read, not run
# > here.)
#
# Forgetting it altogether was the last of the four scripts: the second `init_process_group` of a process is refused. In a
# notebook that is the cell you run again. So ask `dist.is_initialized()` first. If there is a group, leave it as it is: whatever
# uses the first one would be left behind by a second. If there is none, there is nothing to destroy, and torch raises if you try.
# Do not keep the answer in a variable of your own: it would not notice when somebody else makes or destroys the group.
#
# ## What a start costs
#
# “Starting ranks takes seconds.” It does. Of what? `torchrun` once more, with a script that writes down when it is where:

# %% claims={"63": "refined"}
import time

CLOCK = """
import time
moments = [time.time()]
import torch
import torch.distributed as dist
moments.append(time.time())
dist.init_process_group("gloo")
moments.append(time.time())
dist.all_reduce(torch.ones(1))
moments.append(time.time())
import json, os
with open(os.path.join(os.path.dirname(__file__), os.environ["RANK"]), "w") as file:
    json.dump(moments, file)
dist.destroy_process_group()
"""

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "script.py").write_text(CLOCK)
    began = time.time()
    options = ("--nproc-per-node=2", f"--master-port={free_port()}")
    run_quietly(launch, "torch.distributed.run", folder, *options, ranks=1, init=False, timeout=120)
    clocks = [json.loads(Path(folder, str(number)).read_text()) for number in range(2)]

began_here = time.time()
run_quietly(lambda: None, ranks=2)
here = time.time() - began_here

spans = [[b - a for a, b in zip([began, *clock], clock, strict=False)] for clock in clocks]
loading, meeting = min(span[1] for span in spans), min(span[2] for span in spans)
loaded = min(span[0] + span[1] for span in spans)
print("the group is quicker than the import of torch:", meeting < loading)
print("ranks of the course are ready before torchrun's have loaded torch:", here < loaded)
assert meeting < loading
assert here < loaded

# %%
import matplotlib.pyplot as plt

_, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
rows = ["torchrun\nrank 0", "torchrun\nrank 1", "this course\n2 ranks"]
parts = {
    "torchrun itself": ("#999999", ""),
    "import torch": ("#56B4E9", "//"),
    "init_process_group": ("#D55E00", "xx"),
    "first all_reduce": ("#000000", ""),
}
for row, span in enumerate(spans):
    for number, (label, (colour, hatch)) in enumerate(parts.items()):
        left = sum(span[:number])
        name = label if row == 0 else None
        axes.barh(row, span[number], left=left, color=colour, hatch=hatch, edgecolor="black", label=name)
axes.barh(2, here, color="#009E73", hatch="..", edgecolor="black", label="all of it")
axes.set_yticks(range(3), rows)
axes.invert_yaxis()
axes.set(title="What a start costs is import torch", xlabel="seconds")
axes.legend(ncols=5, loc="upper center", bbox_to_anchor=(0.45, -0.3), fontsize="small")
plt.show()

# %% [markdown]
# The rendezvous, the connections and the first collective are a sliver at the end; where a rank's orange part is wide, it waits
# for the one that came later. In a terminal there is a second blue bar before the first: `torchrun` itself begins with `import
# torch` (`torch/distributed/run.py`). Here it was forked from a process that had torch loaded. So are the ranks of this course,
# and that is all their secret.
#
# ## What goes wrong in real life
#
# - **It hangs at the start on the cluster, and not on your machine.** `RANK` taken from the local rank: right on one machine.
# - **“wait timeout”, “1/2 clients joined”, “connect timeout”.** One process has not come: it died while importing, waits for data, or
#   was never started. Read *its* log, not this one. A rank number in the key says which.
# - **“Address already in use.”** Yesterday's job still runs, or two jobs share the machine: Let `torchrun` choose
#   the port (`--standalone`), or give each job its own.
# - **It hangs in a `new_group` that is right.** Count the ones before, on every rank.
# - **The notebook says “initialize the default process group twice”.** Ask `dist.is_initialized()` first, as task 1 does.
#
# ## Rule of thumb
#
# > Let `torchrun` say who is who, and let the device choose the backend. Every rank makes every group, in the same order. At the
# > end drop the model, destroy the group, wait for nobody: with gloo in a `finally`, with NCCL only if nothing was raised.
#
# ## Your turn
#
# Three tasks wait in [exercises/02_process_groups](../exercises/02_process_groups.ipynb): a start and an end that can be called
# at any time, the groups of a grid, and a start script with several faults.
#
# ## Further reading
#
# - `torch/distributed/rendezvous.py`: short and readable. Every URL ends here.
# - PyTorch, *torchrun (Elastic Launch)* in the documentation: the options, and all the variables it sets.
# - PyTorch, *Distributed communication package*: the section on backends.
#
# **Next:** lesson 03, *Samplers*: who gets which sample.
