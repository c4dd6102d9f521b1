# %% [markdown]
# # 01 · DataParallel vs DDP
#
# > *“`nn.DataParallel` is one line and needs no launcher. Why does everybody tell me to use DDP, even on one machine?”*
#
# You will hear three reasons: the master GPU does all the work, its memory fills up, and Python's lock makes the threads
# queue. Each is half true. In this lesson you take `DataParallel` apart into its four steps, count every byte it moves, and
# put DDP beside it.
#
# **You will be able to** say what each of the two does in a step, what that costs in bytes, memory and time, and turn a
# `DataParallel` script into a DDP script that trains the same model. 45 minutes.
#
# **Before this:** lesson 00.

# %%
# %load_ext course_lib

# %% [markdown]
# ## One line, on this machine
#
# `DataParallel` is *one* process that uses several GPUs. So run it on one rank only, and let the model say which threads it
# was called in.

# %%
p = predict(
    "No GPU, or just one. nn.DataParallel(model) is called with a batch of eight. What happens?",
    {
        "an error: DataParallel needs GPUs": "raises",
        "the batch is split over the cores of the CPU": lambda out: (
            len(out["seen"][0]) > 1 and not out["gpus"][0]
        ),
        "nothing: it calls the model, as if it were not there": lambda out: (
            out["seen"][0] == [["MainThread", 8]]
        ),
        "there are several GPUs here: one thread for each": lambda out: (
            len(out["seen"][0]) > 1 and out["gpus"][0] > 1
        ),
    },
)

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --backend gloo --only 0 --predicted --as out
import threading

import torch
import torch.distributed as dist
from torch import nn


class Telling(nn.Linear):
    def forward(self, x):
        seen.append([threading.current_thread().name, len(x)])
        return super().forward(x)


gpus = torch.cuda.device_count()
seen = []
model = nn.DataParallel(Telling(4, 2).to("cuda" if gpus else "cpu"))
model(torch.ones(8, 4))
print("device_ids:", model.device_ids)
seen

# %% [markdown]
# Without a GPU, `DataParallel.__init__` sets `device_ids = []` and `forward` calls the module (`torch/nn/parallel/data_parallel.py`).
# With one GPU it moves model and batch there, and calls the module just the same. No error, no warning, no parallelism.
#
# Its tools cannot be tried on a CPU either:

# %%
# %%ranks --only 0
from torch.nn.parallel import gather, replicate

for name, tool in {
    "replicate": lambda: replicate(nn.Linear(4, 2), [0, 1]),
    "gather": lambda: gather([torch.ones(2, 4), torch.ones(2, 4)], 0),
}.items():
    try:
        tool()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")

# %% [markdown]
# So what follows is a **model** of `DataParallel`: the same four steps, in real threads, with real gradients. Only the devices
# are make-believe. They are numbers, and every copy from one to another goes through `move`, which counts its bytes. (Where
# there are two GPUs or more, a cell further down compares it with the real thing.)
#
# ## One step by hand
#
# **Scatter** cuts the batch. **Replicate** copies the model to every device. **parallel_apply** runs each copy in a thread of its own.
# **Gather** brings the outputs back to device 0, where *you* compute the loss. Then `backward()` goes all the way back.

# %%
# %%ranks
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn

moved = Counter()  # bytes, by (from, to)


def move(tensor, source, target):
    """The tensor, copied from one device to another."""
    if source == target:
        return tensor
    moved[source, target] += tensor.numel() * tensor.element_size()
    return tensor.clone()


class Move(torch.autograd.Function):
    """`move`; the gradient goes back the same way."""

    @staticmethod
    def forward(ctx, tensor, source, target):
        ctx.way_back = target, source
        return move(tensor, source, target)

    @staticmethod
    def backward(ctx, gradient):
        return move(gradient, *ctx.way_back), None, None


class Broadcast(torch.autograd.Function):
    """All weights to all devices; the gradients of all devices are added up on device 0."""

    @staticmethod
    def forward(ctx, devices, *weights):
        ctx.count = len(weights)
        return tuple(move(weight, 0, device) for device in range(devices) for weight in weights)

    @staticmethod
    def backward(ctx, *gradients):
        of_device = [gradients[i : i + ctx.count] for i in range(0, len(gradients), ctx.count)]
        came = [[move(g, device, 0) for g in own] for device, own in enumerate(of_device)]
        return None, *(sum(parts) for parts in zip(*came, strict=True))


# %% [markdown]
# `Move` stands for PyTorch's `Scatter` and `Gather`, `Broadcast` for its `Broadcast` (`torch/nn/parallel/_functions.py`). They are
# autograd functions: that is how gradients come back to the model. Now the four steps.

# %%
# %%ranks
import threading


def scatter(batch, devices):
    return [move(part, 0, device) for device, part in enumerate(batch.chunk(devices))]


def replicate(module, devices):
    weights = list(module.parameters())
    copies = Broadcast.apply(devices, *weights)
    replicas = []
    for device in range(devices):
        copy_of = dict(zip(weights, copies[device * len(weights) :], strict=False))
        replica_of = {part: part._replicate_for_data_parallel() for part in module.modules()}
        for part, replica in replica_of.items():
            for name, child in part._modules.items():
                setattr(replica, name, replica_of[child])
            for name, weight in part._parameters.items():
                setattr(replica, name, copy_of[weight])  # a plain tensor: no parameter, no leaf
            for name, buffer in part._buffers.items():
                setattr(replica, name, move(buffer, 0, device))
        replicas.append(replica_of[module])
    return replicas


def parallel_apply(replicas, parts):
    outputs = [None] * len(parts)

    def work(device):
        outputs[device] = replicas[device](parts[device])

    threads = [threading.Thread(target=work, args=(d,), name=f"device {d}") for d in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outputs


def gather(outputs):
    return torch.cat([Move.apply(output, device, 0) for device, output in enumerate(outputs)])


class ByHand(nn.Module):
    """A model of nn.DataParallel, on `devices` devices of our imagination."""

    def __init__(self, module, devices):
        super().__init__()
        self.module, self.devices = module, devices

    def forward(self, batch):
        parts = scatter(batch, self.devices)
        replicas = replicate(self.module, len(parts))
        return gather(parallel_apply(replicas, parts))


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


# %% [markdown]
# Even `_replicate_for_data_parallel` is PyTorch's own (`torch/nn/modules/module.py`). Does it train the same as one device? And who
# computes which gradient? A hook on each copy of the weights will tell.


# %% claims={"55": "wrong"}
# %%ranks --only 0
torch.manual_seed(1)
inputs, labels = torch.randn(512, 64), torch.randint(10, (512,))

alone, net = make_net(), make_net()
nn.functional.cross_entropy(alone(inputs), labels).backward()

at_replicas = {}
parts = scatter(inputs, 4)
replicas = replicate(net, 4)
print(
    "weights of a replica: leaf?",
    replicas[1][0].weight.is_leaf,
    "| parameters:",
    len(list(replicas[1].parameters())),
)
for device, replica in enumerate(replicas):
    replica[0].weight.register_hook(lambda gradient, device=device: at_replicas.update({device: gradient}))
outputs = gather(parallel_apply(replicas, parts))
nn.functional.cross_entropy(outputs, labels).backward()


def far(one, other):
    return (one - other).abs().max().item() > 1e-6


print("gradients found at devices:", sorted(at_replicas))
print("device 0's alone is the gradient of the batch:", not far(at_replicas[0], alone[0].weight.grad))
print("their sum is:", not far(sum(at_replicas.values()), alone[0].weight.grad))
print("and the original has that sum:", not far(net[0].weight.grad, alone[0].weight.grad))

# %% [markdown]
# The gradient of one device, up to rounding. Where there are two GPUs, so says the real one:

# %% tags=["nbval-ignore-output"] claims={"55": "not runnable here"}
# %%ranks --only 0
if torch.cuda.device_count() < 2:
    print("Fewer than two GPUs: the real DataParallel would only call the module.")
else:
    real = nn.DataParallel(make_net().cuda())
    nn.functional.cross_entropy(real(inputs.cuda()), labels.cuda()).backward()
    assert torch.allclose(real.module[0].weight.grad.cpu(), alone[0].weight.grad, atol=1e-4)
    print(f"The real DataParallel on {len(real.device_ids)} GPUs has the gradient of one device, too.")

# %% [markdown]
# You will read that the master device computes the loss *and does the back-propagation*. The first is true, the second is
# not. The outputs lie on device 0, so the loss is computed there. From there the gradient goes back through `gather`, and
# every replica's part of the graph is executed on its own device, giving a gradient of its own. On GPUs, autograd even has
# a thread for each device, in C++ and without Python's lock (`Engine::start_device_threads`, `torch/csrc/autograd/engine.cpp`).
# What the master does is the *adding up*.
#
# Then it “updates the model and hands out the new weights”? The optimizer updates one model, on device 0. When do the other
# devices get the new weights? Watch an evaluation, in which nothing changes:

# %%
p = predict(
    "net has N bytes of weights. A forward under no_grad, 4 devices. How many bytes of weights are copied?",
    {
        "none: nothing has changed since the last forward": lambda out: out["weights_moved"][0] == 0,
        "3 N": lambda out: out["weights_moved"][0] == 3,
        "6 N": lambda out: out["weights_moved"][0] == 6,
    },
)

# %%
# %%ranks --only 0 --predicted --as out
size = sum(weight.numel() * weight.element_size() for weight in net.parameters())
on_4 = ByHand(net, 4)
moved.clear()
with torch.no_grad():
    on_4(inputs)
batch_moved = (inputs.nbytes + outputs.nbytes) * 3 // 4  # three quarters of inputs and outputs live elsewhere
weights_moved = (moved.total() - batch_moved) / size
weights_moved

# %% [markdown]
# Nobody hands out anything until the next `forward`, which copies all weights to all devices again, whether they have changed
# or not. Replicas live for one forward. And a model that keeps something for itself while it is called?

# %%
p = predict(
    "A module counts its calls with self.calls += 1. After 3 forwards on 4 devices, what is the original's count?",
    {
        "12": lambda out: out["calls"][0] == 12,
        "3": lambda out: out["calls"][0] == 3,
        "0": lambda out: out["calls"][0] == 0,
    },
)


# %%
# %%ranks --predicted --as out
class Counting(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.calls, self.diary = 0, []

    def forward(self, x):
        self.calls += 1
        self.diary.append(len(x))
        return super().forward(x)


counting = Counting(4, 2)
by_hand = ByHand(counting, 4)
ddp = nn.parallel.DistributedDataParallel(Counting(4, 2))
for _ in range(3):
    by_hand(torch.ones(8, 4))
    ddp(torch.ones(2, 4))
calls = counting.calls
print("DataParallel, on 4 devices:", calls, "calls,", len(counting.diary), "entries in the diary")
print(
    "DDP, on each of 4 ranks:   ", ddp.module.calls, "calls,", len(ddp.module.diary), "entries in the diary"
)

norm = nn.BatchNorm1d(1, momentum=1.0)  # a momentum of 1: only the last batch counts
ByHand(norm, 4)(torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]))
print("BatchNorm's mean of 0, 1, ..., 7:", norm.running_mean.item())

# %% [markdown]
# Each thread counted on a copy that was then thrown away. The copies are shallow, though: there is only one diary, and twelve
# calls wrote into it, from four threads. A DDP rank has one model, which stays: 3 and 3.
#
# Of the tensors, only what is changed *in place* on device 0 survives, since there nothing is copied: BatchNorm's statistics
# are those of device 0's part of the batch, here 0 and 1. (The docstring of `DataParallel` says so. What DDP does with buffers
# is lesson 09.)
#
# One more surprise, of `scatter`. It uses `chunk`, and `chunk(4)` is a wish, not a promise:

# %%
# %%ranks --only 0
for samples in (512, 10, 6, 5, 3):
    print(f"{samples:3} samples on 4 devices:", [len(part) for part in torch.ones(samples).chunk(4)])

# %% [markdown]
# Six samples on four devices are three parts, and the fourth device has nothing to do (`device_ids[:len(inputs)]` in
# `DataParallel.forward`). The loss is still that of the whole batch: it is computed after `gather`, so nobody averages averages.
# DDP will.
#
# ## Every byte of a step
#
# Now count a whole training step, forward and backward, on two, three, four and eight devices. For DDP nothing is
# imagined: two, three, four ranks train for real, and the operating system knows how many bytes each of them has sent.


# %%
# %%ranks --only 0 --as dp
def step_bytes(width, devices):
    """Bytes that each device sends in one training step, in sizes of the model; and the size."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    size = sum(weight.nbytes for weight in net.parameters())
    moved.clear()
    nn.functional.cross_entropy(ByHand(net, devices)(inputs), labels).backward()
    sent = [sum(count for (source, _), count in moved.items() if source == d) for d in range(devices)]
    return size, sent


by_devices = {devices: step_bytes(2048, devices) for devices in (2, 3, 4, 8)}
by_width = {width: step_bytes(width, 4) for width in (64, 256, 1024, 4096)}
for devices, (size, sent) in by_devices.items():
    print(f"{devices} devices send, in sizes of the model:", [round(count / size, 1) for count in sent])

# %%
# %%ranks --as ddp
from course_lib.watch.wire import bytes_sent
from torch.nn.parallel import DistributedDataParallel

sent = {}
for count in (2, 3, 4):
    group = dist.new_group(list(range(count)))
    if dist.get_rank() < count:
        torch.manual_seed(0)
        net = DistributedDataParallel(
            nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 10)), process_group=group
        )
        size = sum(weight.nbytes for weight in net.parameters())
        x, y = torch.randn(512 // count, 64), torch.randint(10, (512 // count,))
        for _ in range(3):  # the first two arrange the buckets
            before = bytes_sent()
            nn.functional.cross_entropy(net(x), y).backward()
            dist.barrier(group)
        # Where the system does not count: what a ring all-reduce sends.
        sent[count] = round(
            (bytes_sent() - before) / size if before is not None else 2 * (count - 1) / count, 1
        )
sent

# %% [markdown]
# Read the two tables side by side. In one step of `DataParallel`, device 0 sends the weights to each of the others,
# $N-1$ times their size (and some of the batch), and each of the others sends its gradients back. In a step of DDP no
# weights are sent, only gradients (and the buffers of a model that has some, lesson 09): $2(N-1)/N$ times the size of
# the model from every rank, which stays below 2 for a thousand ranks. That is a *ring*: each rank passes pieces of
# size $1/N$ to its neighbour, $N-1$ of them for summing up and as many for telling the result.

# %%
import matplotlib.pyplot as plt

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", width_ratios=(3, 2))
counts = sorted(dp["by_devices"][0])
busiest = [max(sent) / size for size, sent in (dp["by_devices"][0][n] for n in counts)]
others = [sent[-1] / size for size, sent in (dp["by_devices"][0][n] for n in counts)]
left.plot(counts, busiest, "s-", color="#D55E00", label="DataParallel: device 0")
left.plot(counts, others, "^:", color="#E69F00", label="DataParallel: each other device")
left.plot(
    list(ddp["sent"][0]),
    list(ddp["sent"][0].values()),
    "o",
    ms=9,
    color="#0072B2",
    label="DDP: each rank, measured",
)
left.plot(
    range(2, 9), [2 * (n - 1) / n for n in range(2, 9)], "--", color="#0072B2", label="DDP: 2 (N - 1) / N"
)
left.set(
    title="One device sends for all, or all send alike",
    xlabel="number of devices N",
    ylabel="sent per step (model sizes)",
    ylim=(0, None),
)
left.legend(fontsize=8)
sizes, sents = zip(*dp["by_width"][0].values(), strict=True)
mib = [size / 2**20 for size in sizes]
right.plot(mib, [max(sent) / 2**20 for sent in sents], "s-", color="#D55E00", label="DataParallel: device 0")
right.plot(mib, [2 * 3 / 4 * size for size in mib], "o--", color="#0072B2", label="DDP: each rank")
right.set(
    title="4 devices: both grow with the model",
    xlabel="size of the model (MiB)",
    ylabel="sent per step (MiB)",
)
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# A footnote: who *carries* the weights is up to the hardware. Our `move` copies to one device after the other, as PyTorch does
# where it has no NCCL for it. With NCCL the devices pass data on, which takes load off device 0 (`torch/nn/parallel/comm.py`,
# `torch/csrc/cuda/comm.cpp`). Two things stay. Every device must *receive* all weights in every step. And nothing of this
# overlaps with computing: `replicate` is done before the first layer starts, and its `Broadcast` is *one* node of the graph for
# *all* weights. The backward of that node begins when the last gradient of the last replica is there:

# %%
# %%ranks --only 0
diary = []


class Diary(Broadcast):
    @staticmethod
    def backward(ctx, *gradients):
        diary.append("add up everything")
        return Broadcast.backward(ctx, *gradients)


deep = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
original, Broadcast.apply = Broadcast.apply, Diary.apply
replicas = replicate(deep, 2)
Broadcast.apply = original
for device, replica in enumerate(replicas):
    for layer in range(4):
        replica[layer].weight.register_hook(lambda _, place=(device, layer): diary.append(place))
gather(parallel_apply(replicas, scatter(torch.ones(6, 8), 2))).sum().backward()
assert diary[-1] == "add up everything"
assert sorted(diary[:-1]) == [(device, layer) for device in range(2) for layer in range(4)]
diary[-1], len(diary) - 1

# %% [markdown]
# Eight gradients of weights first, then the sum. DDP starts to send the gradients of the last layers while the first layers are still
# being computed: that is what its buckets are for (lesson 04).
#
# ## Threads and the lock
#
# `parallel_apply` starts a *thread* for each replica. Python's global interpreter lock (GIL) lets one thread at a time run
# Python. So how parallel is it?

# %%
p = predict(
    "Two threads. First both count in a Python loop. Then one multiplies big matrices, the other looks at the clock. "
    "When do they run at the same moment?",
    {
        "both times: that is what threads are for": lambda out: out["cores"][0] >= 1.5 and out["beside"][0],
        "never: there is one lock": lambda out: out["cores"][0] < 1.5 and not out["beside"][0],
        "the second time only": lambda out: out["cores"][0] < 1.5 and out["beside"][0],
    },
)

# %% claims={"56": "refined"}
# %%ranks --predicted --as out
import time

rank = dist.get_rank()
pair = dist.new_group([0, 1])


def piece(layers, x, record=None):
    with torch.no_grad():
        for layer in layers:
            began = time.perf_counter()
            x = layer(x)
            if record is not None:
                record.append((began, time.perf_counter() - began))


def in_threads(*argument_lists):
    threads = [threading.Thread(target=piece, args=arguments) for arguments in argument_lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def seconds(function, *arguments):
    """From a common start until the last of the pair is done."""
    dist.barrier(pair)
    began = time.perf_counter()
    if function is not None:
        function(*arguments)
    took = torch.tensor(time.perf_counter() - began)
    dist.all_reduce(took, op=dist.ReduceOp.MAX, group=pair)
    return took.item()


depths = {16: 100, 64: 60, 256: 8, 1024: 1}
works = {
    w: ([nn.Linear(w, w) for _ in range(depth)], torch.ones(64 if w < 1024 else 128, w))
    for w, depth in depths.items()
}
shortest = {width: [float("inf")] * 3 for width in works}
for _ in range(12 if rank < 2 else 0):
    for width, work in works.items():
        one = seconds(piece if rank == 0 else None, *work)
        threads = seconds(in_threads if rank == 0 else None, work, work)
        processes = seconds(piece, *work)
        shortest[width] = list(map(min, shortest[width], (one, threads, processes)))
speed = {
    width: {"threads": 2 * one / threads, "processes": 2 * one / processes}
    for width, (one, threads, processes) in shortest.items()
    if rank < 2
}

tiny = [nn.Linear(16, 16) for _ in range(60)], torch.ones(64, 16)
thread_records, records = [], []  # several tries; the figure takes the quickest
for _ in range(20 if rank < 2 else 0):
    two, mine = ([], []), []
    if rank == 0:
        in_threads((*tiny, two[0]), (*tiny, two[1]))
    dist.barrier(pair)
    piece(*tiny, mine)
    thread_records.append(two)
    records.append(mine)

cores, beside, stamps, done = 0.0, False, [], threading.Event()


def count():
    for _ in range(300_000):
        pass


def stamp():
    while not done.is_set():
        stamps.append(time.perf_counter())
        time.sleep(0.001)


if rank == 0:
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        counters = [threading.Thread(target=count) for _ in range(2)]
        for counter in counters:
            counter.start()
        for counter in counters:
            counter.join()
        cores = max(cores, (time.process_time() - cpu) / (time.perf_counter() - wall))

    stamper, matrix = threading.Thread(target=stamp), torch.ones(1500, 1500)
    stamper.start()
    began = time.perf_counter()
    matrix @ matrix
    ended = time.perf_counter()
    done.set()
    stamper.join()
    beside = any(began < moment < ended for moment in stamps)
    print("two Python loops: two cores are busy?", cores >= 1.5)
    print("beside one big multiplication: the other thread runs?", beside)

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.2), layout="constrained")


def until(spans):
    """From the first start to the last end, over all lanes."""
    return max(begin + length for lane in spans for begin, length in lane) - min(lane[0][0] for lane in spans)


lanes, lengths = {}, {}
for kind, tries in {
    "process": zip(out["records"][0], out["records"][1], strict=True),
    "thread": out["thread_records"][0],
}.items():
    best = min(tries, key=until)
    lengths[kind] = until(best) * 1e3
    start = min(lane[0][0] for lane in best)
    for number in (1, 0):
        lanes[f"{kind} {number}"] = [((begin - start) * 1e3, length * 1e3) for begin, length in best[number]]
for row, (name, spans) in enumerate(lanes.items()):
    colour = "#0072B2" if "process" in name else "#D55E00"
    left.broken_barh(spans, (row - 0.35, 0.7), facecolor=colour, edgecolor="white", linewidth=0.3)
left.set_yticks(range(4), list(lanes))
left.set(
    title=f"60 tiny layers: threads {lengths['thread']:.1f} ms, processes {lengths['process']:.1f} ms",
    xlabel="milliseconds; each box is one layer",
)
widths = list(out["speed"][0])
for kind, style, colour in (("processes", "o-", "#0072B2"), ("threads", "s--", "#D55E00")):
    right.plot(widths, [out["speed"][0][w][kind] for w in widths], style, color=colour, label=f"two {kind}")
right.axhline(1, color="black", linewidth=0.8)
right.text(widths[0], 1.03, "one after the other", fontsize=8)
right.set_xscale("log", base=2)
right.set_xticks(widths, widths)
gain = [out["speed"][0][w]["threads"] for w in (16, 1024)]
right.set(
    title=f"Two threads: {gain[0]:.1f}x for tiny, {gain[1]:.1f}x for big layers",
    xlabel="width of the layer",
    ylabel="speed-up",
    ylim=(0, 2.5),
)
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# So the lock is real, and the story has a second half. PyTorch gives the lock back *inside* an operation, so two
# threads do multiply big matrices at the same time. What queues is the Python between the operations: on the right,
# two threads gain with wide layers, and with narrow ones next to nothing, or less (below the line they take longer
# than one thread would); two processes gain at every width. On a GPU that Python is nearly all that the thread does:
# it *launches* kernels, and does not wait for them. A model of many small kernels is then held up by its launches, in
# `DataParallel` by those of all replicas, through one lock. A process has a lock of its own.
#
# (Python can be built without the lock since 3.13. The asserts in the cell would tell you.)
#
# And a whole step, on two devices? Three models, from many small layers to few big ones: on one device, with `ByHand` on two,
# with DDP on two ranks.

# %%
# %%ranks --as out
models = {
    "30 layers, 32 wide": (30, 32, 64),
    "30 layers, 128 wide": (30, 128, 128),
    "4 layers, 512 wide": (4, 512, 256),
}


def halves(model, x):
    """Seconds of forward and backward."""
    began = time.perf_counter()
    loss = model(x).square().mean()
    middle = time.perf_counter()
    loss.backward()
    return middle - began, time.perf_counter() - middle


took = {}
for name, (depth, width, samples) in models.items():
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)))
    x = torch.randn(samples, width)
    took[name] = []
    for model in (net, ByHand(net, 2)):
        dist.barrier()
        took[name].append(min((halves(model, x) for _ in range(6)), key=sum) if rank == 0 else None)
    dist.barrier()
    if rank < 2:
        ddp = DistributedDataParallel(net, process_group=pair)
        took[name].append(min((halves(ddp, x[rank::2]) for _ in range(6)), key=sum))

# %%
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for axes, (name, pairs) in zip(panels, out["took"][0].items(), strict=True):
    forward, backward = zip(*[[1e3 * part for part in pair] for pair in pairs], strict=True)
    axes.bar(range(3), forward, color="#0072B2", edgecolor="black", label="forward")
    axes.bar(
        range(3), backward, bottom=forward, color="#F0E442", hatch="///", edgecolor="black", label="backward"
    )
    axes.set_xticks(range(3), ["one\ndevice", "two\nthreads", "DDP,\n2 ranks"])
    axes.set_title(name, fontsize=10)
panels[0].set_ylabel("milliseconds a step")
figure.legend(*panels[0].get_legend_handles_labels(), ncols=2, loc="outside lower center", frameon=False)
alone_, threads_, ddp_ = (sum(pair) for pair in out["took"][0]["30 layers, 32 wide"])
plt.suptitle(
    f"Small layers: two threads take {threads_ / alone_:.1f}x, DDP {ddp_ / alone_:.1f}x the time of one device"
)
plt.show()

# %% [markdown]
# Look at *forward* first: scatter, replicate and the threads make it longer than on one device, most of all when layers are small.
# Be careful with *backward*. Ours is slower than that of the real `DataParallel`, since on a CPU autograd works off both replicas
# in one thread, on GPUs in two. And its copies are cheaper: memory to memory, within one process, while DDP's go through
# sockets. How DDP fares against *one* device depends on how much there is to compute for each byte that is sent; models as small
# as these are often best left on one.
#
# ## The master's memory
#
# What does each device hold in the course of a step? Count it: weights, gradients, Adam's two numbers for each weight, and
# what autograd keeps of the forward (`saved_tensors_hooks` sees each such tensor). The model has many outputs, as a language
# model has.

# %%
# %%ranks --as memory
from course_lib.watch import buckets

words = 4000


def wide_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, words))


class Kept:
    """A context in which the bytes that autograd keeps are counted; the weights are not."""

    def __init__(self, weights):
        self.storages = {}
        self.weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self.context = torch.autograd.graph.saved_tensors_hooks(self.note, lambda tensor: tensor)

    def note(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.weights:
            self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def __enter__(self):
        self.context.__enter__()
        return self

    def __exit__(self, *error):
        self.context.__exit__(*error)

    @property
    def bytes(self):
        return sum(self.storages.values())


def loss_and_kept(outputs, labels):
    with Kept([]) as kept:
        loss = nn.functional.cross_entropy(outputs, labels)
    return loss, kept.bytes


def adam_bytes(optimizer):
    return sum(value.nbytes for state in optimizer.state.values() for value in state.values() if value.dim())


def total(tensors):
    return sum(tensor.nbytes for tensor in tensors)


batch, answers = torch.randn(512, 64), torch.randint(words, (512,))

# DDP: each rank has a quarter of the batch.
mine = DistributedDataParallel(wide_net())
optimizer = torch.optim.Adam(mine.parameters())
part, part_answers = batch[rank::4].clone(), answers[rank::4]
with Kept(mine.parameters()) as kept:
    outputs = mine(part)
loss, kept_by_loss = loss_and_kept(outputs, part_answers)
loss.backward()
optimizer.step()
ddp_holds = {
    "weights": total(mine.parameters()),
    "gradients": total(weight.grad for weight in mine.parameters()),
    "DDP's buckets": sum(bucket.bytes for bucket in buckets(mine).built),
    "Adam": adam_bytes(optimizer),
    "kept by the layers": kept.bytes,
    "outputs and loss": outputs.nbytes + kept_by_loss,
}

# DataParallel: everything in this process, told apart by device.
dp_holds = []
if rank == 0:
    net = wide_net()
    optimizer = torch.optim.Adam(net.parameters())
    parts = scatter(batch, 4)
    replicas = replicate(net, 4)
    grads, kept, outputs = [0] * 4, [], []
    for device, (replica, part) in enumerate(zip(replicas, parts, strict=True)):
        weights = [replica[0].weight, replica[0].bias, replica[2].weight, replica[2].bias]
        for weight in weights:
            weight.register_hook(lambda g, d=device: grads.__setitem__(d, grads[d] + g.nbytes))
        with Kept(weights) as own:
            outputs.append(replica(part))
        kept.append(own.bytes)
    whole = gather(outputs)
    loss, kept_by_loss = loss_and_kept(whole, answers)
    loss.backward()
    optimizer.step()
    for device in range(4):
        master = device == 0
        dp_holds.append(
            {
                "weights": total(net.parameters()),
                "gradients": grads[device]
                + (total(weight.grad for weight in net.parameters()) if master else 0),
                "Adam": adam_bytes(optimizer) if master else 0,
                "kept by the layers": kept[device],
                "outputs and loss": outputs[device].nbytes + (whole.nbytes + kept_by_loss if master else 0),
            }
        )
{name: round(count / 2**20, 1) for name, count in (dp_holds[0] if rank == 0 else ddp_holds).items()}

# %%
looks = {
    "weights": ("#0072B2", ""),
    "gradients": ("#56B4E9", "///"),
    "DDP's buckets": ("#FFFFFF", "..."),
    "Adam": ("#999999", ""),
    "kept by the layers": ("#009E73", "xx"),
    "outputs and loss": ("#E69F00", "\\\\\\"),
}
_, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
bars = [*memory["dp_holds"][0], *memory["ddp_holds"].values()]
places = [0, 1, 2, 3, 4.6, 5.6, 6.6, 7.6]
bottom = [0.0] * 8
for name, (colour, hatch) in looks.items():
    heights = [bar.get(name, 0) / 2**20 for bar in bars]
    axes.bar(
        places,
        heights,
        bottom=bottom,
        color=colour,
        hatch=hatch,
        edgecolor="black",
        linewidth=0.6,
        label=name,
    )
    bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
axes.set_xticks(places, [f"device {d}" for d in range(4)] + [f"rank {r}" for r in range(4)])
axes.set(title="DataParallel: device 0 is full first. DDP: all alike", ylabel="MiB")
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# Device 0 of `DataParallel` is full while the others are nearly empty, as people say. But look at *why*. Weights, gradients and
# Adam take 20 MiB on device 0, and as much on a DDP rank, with its buckets. What stands out is the outputs of the **whole
# batch**, gathered, with all that the loss keeps of them: it grows with the batch, and you enlarge the batch with every GPU that
# you add. The classic way out is to compute the loss inside the module, so that one number is gathered from each device.
#
# And all devices together hold *more* with DDP: each rank has Adam's numbers, and buckets on top. DDP does not save memory.
# It spreads it evenly, and the fullest device decides what fits. (`gradient_as_bucket_view=True` makes gradients and buckets
# one: lesson 04.)
#
# ## From DataParallel to DDP
#
# | | DataParallel | DDP |
# | --- | --- | --- |
# | start | `python train.py` | `torchrun --nproc-per-node 4 train.py` |
# | set up | - | `init_process_group()`, device `LOCAL_RANK` |
# | wrap | `DataParallel(net.cuda())` | `DDP(net.to(device))` |
# | loader | `batch_size=128` | `batch_size=128 // world_size`, `sampler=DistributedSampler(data)` |
# | epoch | - | `sampler.set_epoch(epoch)` |
# | loss | of the whole batch | of this rank's part; gradients are averaged over ranks |
# | save, print | as it is | on rank 0 |
#
# Wrapping a model in DDP also sends rank 0's weights to all other ranks. That is necessary: averaged gradients move all ranks by
# the same amount, so models that start from different weights stay apart.
#
# Is it the same training? One epoch over the digits, both ways. The table says yes, if the parts of a batch have equal sizes.

# %%
# %%ranks --as out
from course_lib.data import load_digits
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

images, digits = load_digits()
data = TensorDataset(
    torch.from_numpy(images[:1408]).float().flatten(1) / 16, torch.from_numpy(digits[:1408]).long()
)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for pixels, answers in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pixels), answers).backward()
        optimizer.step()
    return len(loader), torch.nn.utils.parameters_to_vector(model.parameters()).detach()


dp_steps, dp_weights = train(ByHand(make_net(), 4), DataLoader(data, batch_size=128))
sampler = DistributedSampler(data, shuffle=False)  # only so that both see the batches in the same order
steps, weights = train(
    DistributedDataParallel(make_net()), DataLoader(data, batch_size=128 // 4, sampler=sampler)
)
print(f"DataParallel {dp_steps} steps, DDP {steps} steps")
"the same model, up to rounding:", (weights - dp_weights).abs().max().item() < 1e-4

# %% [markdown]
# The slip that nobody notices, since everything runs: `batch_size` stays as it was.

# %%
p = predict(
    "batch_size=128 is left as it was, on 4 ranks. What is trained?",
    {
        "the same: 128 samples a step, 32 a rank": lambda out: out["kept_steps"][0] == 11,
        "batches of 512 in all: a quarter of the steps": lambda out: out["kept_steps"][0] == 3,
    },
)

# %%
# %%ranks --predicted --as out
loader = DataLoader(data, batch_size=128, sampler=DistributedSampler(data, shuffle=False))
kept_steps, kept_weights = train(DistributedDataParallel(make_net()), loader)
print(f"{kept_steps} steps; with DataParallel {dp_steps}")
"the same model:", (kept_weights - dp_weights).abs().max().item() < 1e-4

# %% [markdown]
# In `DataParallel`, `batch_size` is that of the step; in DDP it is that of a rank. If you *want* the larger batch, that is another
# training: the learning rate has to be found again.
#
# ## What goes wrong in real life
#
# **Half converted.** Launcher and sampler are there; the wrapper is still `DataParallel` on one device, or none at all. Every
# rank trains, the losses fall, nothing complains:

# %%
# %%ranks
from course_lib.watch import compare

half = make_net()
train(half, DataLoader(data, batch_size=32, sampler=DistributedSampler(data, shuffle=False)))
compare(model=half).equal

# %% [markdown]
# Four models, each of a quarter of the data, and rank 0's is saved. `compare` asks on all ranks whether something is the same
# everywhere. `ddp-course doctor train.py` looks at a whole script: it names the parameters that no DDP model holds and that
# differ.
#
# - **What `forward` stores on the module is gone under `DataParallel`** (`self.last = x`): it was stored on a replica. Return it.
# - **The loss is a vector, and its `.item()` fails.** The module returned the loss itself: `gather` makes a vector of the
#   replicas' losses (`Gather.forward`, `torch/nn/parallel/_functions.py`). Take `.mean()`, and know that with unequal parts this
#   is not the mean over the batch.
# - **Keys begin with `module.`** in both: checkpoints go from one wrapper to the other, not to the bare model. Save `model.module`:

# %%
# %%ranks
list(nn.DataParallel(make_net()).state_dict()) == list(DistributedDataParallel(make_net()).state_dict())

# %% [markdown]
# - **Out of memory on GPU 0 only.** `DataParallel`: the outputs. A DDP script: somebody forgot the device, and all ranks put
#   something on `cuda:0`. (`torch.load` without `map_location` does that with whatever was saved there: lesson 14.)
#
# ## Rule of thumb
#
# > `DataParallel` copies the model in every forward and makes one process drive all GPUs. DDP copies it once, and then sends
# > gradients while it computes. Divide `batch_size`, add the sampler, and it is the same training.
#
# ## Your turn
#
# Three tasks wait in [exercises/01_dataparallel](../exercises/01_dataparallel.ipynb): the step by hand, the bytes as a formula, a
# script to convert.
#
# ## Further reading
#
# - `torch/nn/parallel/data_parallel.py`, `replicate.py`, `parallel_apply.py`: the four steps.
# - PyTorch, *CUDA semantics*, “Use nn.parallel.DistributedDataParallel instead of multiprocessing or nn.DataParallel”.
# - Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, 2009: the ring.
#
# **Back to:** the [index](index.ipynb).
