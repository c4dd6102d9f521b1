# %% [markdown]
# # 08 · Unused parameters and changing graphs
#
# > *“Expected to have finished reduction in the prior iteration. Parameter indices which did not receive grad: 4 5. Which are
# > those? And everybody says: `find_unused_parameters=True`. Is that all?”*
#
# DDP counts. It expects one gradient for every parameter, on every rank, in every step. A head that is not trained yet, a
# layer that is dropped at random, an expert that gets no token: the count is not reached. What comes then is an error, a
# deadlock, or nothing at all, and the third is the bad one.
#
# **You will be able to** read the error, tell it before DDP does, choose between three ways out by what your model does and
# not by what the forum says, and build a mixture of experts that needs none of them. 40 minutes.
#
# **Before this:** lessons 00 and 04.

# %%
# %load_ext course_lib

# %% [markdown]
# ## Read the error
#
# A body and two heads. `path` says which heads are used.

# %%
# %%ranks 2
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world_size = dist.get_rank(), dist.get_world_size()


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, path="left"):
        x = self.body(x).tanh()
        return sum(getattr(self, head)(x) for head in path.split("+"))


def batch(step):
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(10 * step + rank))


# %% claims={"10": "outdated", "S14": "wrong"}
# %%ranks
ddp = DistributedDataParallel(TwoHeads())
ddp(batch(0)).square().mean().backward()
try:
    ddp(batch(1))
except RuntimeError as error:
    message = str(error)
print(message.partition(" You can")[0])
told = next(line for line in message.splitlines() if line.startswith("Parameter indices"))
print(told)
assert "not used in producing its output" not in message

# %% [markdown]
# You will find this error quoted as “parameters that were not used in producing its *output*”. That was its text once; on
# this torch it speaks of the *loss*, and that is more exact: a head whose output you compute and then do not use gets no
# gradient, either.
#
# **4 and 5** are positions in the list of parameters that DDP looks after. Look them up in the right list:

# %%
# %%ranks
indices = [int(number) for number in told.partition(": ")[2].split()]
names = [name for name, p in ddp.module.named_parameters() if p.requires_grad]
print("not frozen:", [names[i] for i in indices])

# %% [markdown]
# The condition matters. DDP leaves out what was frozen *when it was made*, so one frozen layer at the front shifts all
# numbers (`_build_params_for_reducer`, `torch/nn/parallel/distributed.py`). Or let DDP do it: with
# `TORCH_DISTRIBUTED_DEBUG=INFO` in the environment, the message has names. In a running process `set_debug_level` does the
# same. (The message offers `DETAIL`, too. With gloo, do not follow it: in a group made at that level, DDP's constructor dies of a
# segmentation fault, and the ranks are gone without a message. [Lesson 13](13_debugging.ipynb) runs it. For names `INFO` is
# enough.)

# %%
# %%ranks
frozen = TwoHeads()
frozen.body.requires_grad_(False)
dist.set_debug_level(dist.DebugLevel.INFO)
ddp = DistributedDataParallel(frozen)
dist.set_debug_level(dist.DebugLevel.OFF)
ddp(batch(0)).square().mean().backward()
try:
    ddp(batch(1))
except RuntimeError as error:
    print(*str(error).splitlines()[-2:], sep="\n")

# %% [markdown]
# The same head, and now it is 2 and 3.
#
# ## The last step
#
# Both models above went through a first `backward()` without a word; the error came in the *second* forward. So what if there
# is no next forward?
# Four steps use both heads. The fifth, which is the last, uses one.

# %%
p = predict("08.last_step")

# %%
# %%ranks --predicted --as out
torch.manual_seed(0)
ddp = DistributedDataParallel(TwoHeads())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)


def apart(tensor):
    """The largest difference between the ranks."""
    low, high = tensor.detach().clone(), tensor.detach().clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return (high - low).max().item()


differences = []
for step in range(5):
    optimizer.zero_grad()
    ddp(batch(step), path="left+right" if step < 4 else "left").square().mean().backward()
    optimizer.step()
    differences.append(apart(ddp.module.body.weight))
print([round(difference, 3) for difference in differences])
round(differences[-1], 3)

# %% [markdown]
# Two models, and not a word: the error comes one step too late. (Lesson 04 ended with the same: where a gradient is missing, a
# bucket is not sent, and nothing in it is averaged.) A test that trains for a single step and waits for an error finds nothing. Nor does an evaluation:
# the check is made only where gradients are on. Ask DDP for it, right after `backward()`, with the method that lesson 04 ended
# with:

# %%
# %%ranks
with torch.no_grad():
    ddp(batch(9))
print("an evaluation does not mind")
try:
    ddp._check_reducer_finalized()
except RuntimeError as error:
    print(str(error).partition(" before")[0])

# %% [markdown]
# Why so late? Each bucket counts down how many of its gradients are `pending` (`Reducer::mark_variable_ready`,
# `torch/csrc/distributed/c10d/reducer.cpp`). Only at zero it is sent, and only after the *last* bucket is
# `finalize_backward` queued, which waits and writes averages into `.grad`. A gradient that does not come is no event.
# Nothing runs that could complain, until the next `_pre_forward` finds `require_finalize_` still set
# (`ensure_prior_reduction_finished`).
#
# It is not only the missing gradient that stays local. The bucket never left, so *nothing* of it was averaged, and without
# `finalize_backward` the buckets that did leave are not copied back, either (except with `gradient_as_bucket_view=True`,
# where `.grad` *is* the bucket). Here the body went apart, which had a gradient in every step.
#
# ## Ranks that disagree
#
# Now the graph differs between ranks: rank 0's batch has labels for both heads, rank 1's only for the left one.

# %%
p = predict("08.one_rank")

# %%
# %%ranks --predicted --as stuck
ddp = DistributedDataParallel(TwoHeads())
for step in range(2):
    ddp(batch(step), path="left+right" if rank == 0 else "left").square().mean().backward()

# %% [markdown]
# Rank 0 has all its gradients, so in the first step it sends its bucket and waits. Rank 1 misses two, sends nothing, waits
# for nothing, and meets the error in its second forward. **The rank that did everything right is the one that hangs.** Had
# rank 1 used only the right head and rank 0 only the left one, both would have raised. Error or deadlock: it depends on
# nothing but who leaves out what.
#
# > **On GPUs.** With NCCL the waiting is done on the GPU. Rank 0's `backward()` returns, and its program stops at the next line
# > that needs a number from the GPU, often `loss.item()`: that is the line a stack shows. (Read in `ProcessGroupNCCL.cpp`, not
# > run here.)
#
# Calling the model around its wrapper, as `ddp.module(x)`, makes all of this go away, and the averages, too: only the wrapper's
# forward prepares DDP for the backward that follows. Without it every rank keeps its own gradients, and nobody complains.
#
# ## Four ways, twelve graphs
#
# Three ways out are named everywhere: `find_unused_parameters=True`, `static_graph=True`, and a line in the loss that
# touches all parameters and changes nothing. Try each of them, and DDP as it is, on everything that a graph can do. Each is
# run for five steps and compared with the mean of the ranks' own gradients, as in lesson 06.

# %%
# %%ranks --as out
import copy
from dataclasses import dataclass
from types import SimpleNamespace


@dataclass
class Output:
    y: torch.Tensor
    other: torch.Tensor | None = None


KINDS = {"tuple": lambda *outputs: outputs, "dataclass": Output, "object": lambda y: SimpleNamespace(y=y)}


class Wrapped(TwoHeads):
    """A path such as `dataclass:left,right` gives a dataclass with two outputs."""

    def forward(self, x, path):
        kind, _, paths = path.rpartition(":")
        outputs = [super(Wrapped, self).forward(x, one) for one in paths.split(",")]
        return KINDS[kind](*outputs) if kind else outputs[0]


L, R, BOTH = "left", "right", "left+right"
GRAPHS = {
    "all is used": lambda step: BOTH,
    "a head is never used": lambda step: L,
    "an output is not in the loss": lambda step: "tuple:left,right",
    "the same, of a dataclass": lambda step: "dataclass:left,right",
    "the output is a dataclass": lambda step: "dataclass:" + BOTH,
    "the output is an object": lambda step: "object:" + BOTH,
    "each rank has its own head": lambda step: (L, R)[rank],
    "rank 0 uses a head more": lambda step: (BOTH, L)[rank],
    "another head in each step": lambda step: (L, R)[step % 2],
    "... and on each rank": lambda step: (L, R)[(step + rank) % 2],
    "a head is dropped in step 2": lambda step: BOTH if step < 2 else L,
    "a head is added in step 2": lambda step: L if step < 2 else BOTH,
}
WAYS = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
    "all touched": {},
}


def loss_of(model, step, path, touch=False):
    y = model(batch(step), path)
    y = y[0] if isinstance(y, tuple) else getattr(y, "y", y)
    loss = (y - 1).square().mean()
    return loss + 0 * sum(p.sum() for p in model.parameters()) if touch else loss


def gradient(net):
    return torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in net.parameters()]
    )


def five_steps(path_at, options, touch):
    """How far from right, in percent, each step was; a string is an error and the end."""
    torch.manual_seed(0)
    net = Wrapped()
    alone, ddp, seen = copy.deepcopy(net), DistributedDataParallel(net, **options), []
    for step in range(5):
        alone.zero_grad()
        net.zero_grad()
        loss_of(alone, step, path_at(step)).backward()
        right = gradient(alone)
        dist.all_reduce(right, dist.ReduceOp.AVG)
        try:
            loss_of(ddp, step, path_at(step), touch).backward()
        except RuntimeError as error:
            return [*seen, str(error).partition(". ")[0].partition(", e.g.")[0]]
        off = (gradient(net) - right).norm() / right.norm()
        dist.all_reduce(off, dist.ReduceOp.MAX)
        seen.append(round(100 * off.item(), 1))
    return seen


found = {
    (graph, way): five_steps(path_at, options, touch=way == "all touched")
    for graph, path_at in GRAPHS.items()
    for way, options in WAYS.items()
    if (graph, way) != ("rank 0 uses a head more", "default")  # hangs: see above
}
len(found)

# %%
found = dict(out["found"][0])
found["rank 0 uses a head more", "default"] = ["hang" if 0 in stuck.waiting else "?"]
graphs, ways = (list(dict.fromkeys(keys)) for keys in zip(*found, strict=True))
MESSAGES = {
    "R": "Expected to have finished reduction in the prior iteration before starting a new one",
    "T": "Expected to mark a variable ready only once",
    "C": "Your training graph has changed in this iteration",
}


def mark(step):
    """A letter for a step."""
    if isinstance(step, float):
        return "." if step < 0.1 else "x"
    return "h" if step == "hang" else next(letter for letter, text in MESSAGES.items() if text == step)


for graph in graphs:
    print(f"{graph:30}" + "".join(f"{''.join(map(mark, found[graph, way])):8}" for way in ways).rstrip())
print("\ncolumns: " + ", ".join(ways))
print(". right   x wrong, without a word   h hangs")
for letter, text in MESSAGES.items():
    print(f"{letter} raises “{text}”")

# %%
import matplotlib.pyplot as plt

LOOKS = {
    ".": ("white", "", "right"),
    "x": ("#D55E00", "xxx", "wrong, without a word"),
    "e": ("#56B4E9", "...", "raises"),
    "h": ("#E69F00", "///", "hangs"),
}
_, axes = plt.subplots(figsize=(7.4, 4.6), layout="constrained")
for row, graph in enumerate(graphs):
    for column, way in enumerate(ways):
        for step, value in enumerate(found[graph, way]):
            letter = mark(value)
            colour, hatch, _ = LOOKS["e" if letter in MESSAGES else letter]
            place = (column + 0.08 + 0.17 * step, row - 0.3)
            axes.add_patch(
                plt.Rectangle(place, 0.15, 0.6, facecolor=colour, hatch=hatch, edgecolor="#444444", lw=0.6)
            )
handles = [
    plt.Rectangle((0, 0), 1, 1, facecolor=c, hatch=h, edgecolor="#444444", label=text)
    for c, h, text in LOOKS.values()
]
for column in range(1, len(ways)):
    axes.axvline(column, color="black", lw=0.8)
axes.set(xlim=(0, len(ways)), ylim=(len(graphs) - 0.4, -0.6))
axes.set_xticks([column + 0.5 for column in range(len(ways))], ways, fontsize=8)
axes.set_yticks(range(len(graphs)), graphs, fontsize=9)
axes.tick_params(length=0)
axes.xaxis.tick_top()
axes.set_title("A head is never used: by default one silent wrong step, then an error", fontsize=10)
assert "".join(map(mark, found["a head is never used", "default"])) == "xR"
axes.figure.legend(handles=handles, ncols=4, loc="outside lower center", frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# Column by column:
#
# **default** is right where every parameter gets a gradient, on every rank, in every step, and nowhere else.
#
# **`find_unused_parameters`** fails in two rows. After every forward it walks the autograd graph back from the *output*, and
# declares ready what it does not meet (`search_unused_parameters`, `reducer.cpp`). It looks for tensors in lists, tuples,
# dictionaries and dataclasses (`_find_tensors`, `distributed.py`), not in other objects. An output that it cannot see uses
# nothing: all parameters are declared ready, and then their gradients come, too.
#
# You will read that it does not help where an *output* is left out of the loss; the error message says so itself. Row three
# says otherwise, on this torch: all outputs are sent through one common autograd node (`_DDPSink`), so that the backward
# visits what is behind the ignored one after all, with no gradient, and it is counted. Row four says when the message is
# right. What goes into that node is found by other means (`_tree_flatten_with_rref`), and those do not look into a
# dataclass.
#
# **`static_graph`** learns in the first backward how often each parameter gets a gradient, *on this rank*. So the ranks may
# differ (“each rank has its own head”), as long as each of them goes on as it began. Where the graph changes it raises; mind
# the row in which a head is dropped, one step too late again. And four rows should make you careful. `_DDPSink` works until
# the first backward and then no more: an ignored output is *counted* once and missed ever after. And it is `_DDPSink` that
# ends the first backward. Where it finds no tensor in the output, that end is never noticed: **with a dataclass for an
# output no gradient is averaged, ever, and nothing raises.** (Hugging Face's models return dataclasses and are not concerned:
# `ModelOutput.__init_subclass__` in `transformers/utils/generic.py` registers each of them with `torch.utils._pytree`, for this
# very reason: read, not run. The cell below does the same for `Output`.)
#
# **All touched**: `loss + 0 * sum(p.sum() for p in ddp.parameters())`. Every parameter gets a gradient, if only of zeros, on
# every rank. Right in all rows: it is what the count asks for.

# %%
# %%ranks
from torch.utils import _pytree

if Output not in _pytree.SUPPORTED_NODES:
    _pytree.register_dataclass(Output)
print(
    "static_graph, the output is a dataclass:",
    five_steps(GRAPHS["the output is a dataclass"], WAYS["static_graph"], False),
)
print(
    "find_unused_parameters, one field not in the loss:",
    five_steps(GRAPHS["the same, of a dataclass"], WAYS["find_unused_parameters"], False),
)

# %% [markdown]
# Both right, once the dataclass is registered. And two of the ways together?

# %%
# %%ranks --expect raises:RuntimeError
print("nothing unused:", five_steps(GRAPHS["all is used"], {"find_unused_parameters": True}, touch=True))
ddp = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
(ddp(batch(0)) + 0 * sum(p.sum() for p in ddp.parameters())).sum().backward()

# %% [markdown]
# Nothing is unused in the first line, so it passes. In the last the right head is not in the *output's* graph and is declared
# ready, and then the touch gives it a gradient: “ready only once”. One way out at a time. (Other roads to this message are in
# lessons 06 and 07.)
#
# **`static_graph` and `no_sync`.** Where gradients are added up over several backwards (lesson 10), the first backward must not be
# under `no_sync()`: with `static_graph=True` it raises, and asks you to report that. (It has been: issue 143580 of
# `pytorch/pytorch`.)

# %%
# %%ranks --expect raises:RuntimeError
ddp = DistributedDataParallel(Wrapped(), static_graph=True)
with ddp.no_sync():
    loss_of(ddp, 0, BOTH).backward()

# %% [markdown]
# Leave `no_sync` out of the whole first step. From the second step on, the two go together:

# %%
# %%ranks
from contextlib import nullcontext

torch.manual_seed(0)
net = Wrapped()
alone, ddp = copy.deepcopy(net), DistributedDataParallel(net, static_graph=True)
for step in range(3):
    alone.zero_grad()
    net.zero_grad()
    for number in range(4 * step, 4 * step + 4):
        with ddp.no_sync() if step > 0 and number % 4 < 3 else nullcontext():
            loss_of(ddp, number, BOTH).backward()
        loss_of(alone, number, BOTH).backward()
    right = gradient(alone)
    dist.all_reduce(right, dist.ReduceOp.AVG)
    print(f"step {step}:", "right" if torch.allclose(gradient(net), right, atol=1e-6) else "wrong")

# %% [markdown]
# ## What find_unused_parameters costs
#
# A warning of DDP's tells you that it “can adversely affect performance”. What do you pay for? Count first: thirty layers,
# all of them in use, one step after the warm-up.


# %%
# %%ranks
import time

from torch.profiler import profile


def layers(count):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(8, 8) for _ in range(count)))


def step_of(ddp, touch=False):
    loss = ddp(torch.ones(2, 8)).square().mean()
    (loss + 0 * sum(p.sum() for p in ddp.parameters()) if touch else loss).backward()


def walks_in_a_step(ddp):
    with profile() as profiler:
        step_of(ddp)
    return sum(e.count for e in profiler.key_averages() if "search_unused_parameters" in e.key)


FLAGS = {name: options for name, options in WAYS.items() if name != "all touched"}
models = {name: DistributedDataParallel(layers(30), **options) for name, options in FLAGS.items()}
for ddp in models.values():
    for _ in range(3):
        step_of(ddp)

# %%
# %%ranks --as plain
walks_in_a_step(models["default"])

# %%
# %%ranks --as searching
walks_in_a_step(models["find_unused_parameters"])

# %%
# %%ranks --as static
walks_in_a_step(models["static_graph"])

# %% claims={"58": "refined"}
for name, outcome in {"default": plain, "find_unused_parameters": searching, "static_graph": static}.items():
    sent = ", ".join(f"{c.op} of {c.sizes[0][0]} x {c.dtypes[0]}" for c in outcome.collectives[0])
    print(f"{name:24}{outcome.values[0]} walks through the graph; {sent}")
assert (plain.values[0], searching.values[0], static.values[0]) == (0, 1, 0)
assert [len(outcome.collectives[0]) for outcome in (plain, searching, static)] == [1, 2, 1]

# %% [markdown]
# Two things, in every step, whether anything is unused or not. One **walk** through the whole graph, in the forward, on
# every rank. And one more **all-reduce**, of a whole number for each parameter: who has used what? A third is not to be seen
# here: buckets stay as the constructor made them, the small one is sent last, and their order never follows that of the
# gradients (lesson 04). `static_graph` pays for neither after its first backward.
#
# How much is it in time? The walk goes through all nodes of the graph, whatever their size: the more a node computes, the
# less you notice. So here is the worst case, layers so small that the graph is all there is. Beside it stands the third way, a
# loss that touches everything. Measured is the time for which the rank's main thread computes: waiting, for others or for a busy
# machine, does not count. (So the time of the second all-reduce is not in it; that one grows with the number of ranks.)

# %%
# %%ranks --as out
milliseconds = {}
for count in (10, 30, 100):
    group = {name: DistributedDataParallel(layers(count), **options) for name, options in WAYS.items()}
    best = dict.fromkeys(group, float("inf"))
    for attempt in range(30):
        for name, ddp in group.items():
            begin = time.thread_time()
            step_of(ddp, touch=name == "all touched")
            if attempt > 1:
                best[name] = min(best[name], 1e3 * (time.thread_time() - begin))
    milliseconds[count] = best

# %%
times = out["milliseconds"][0]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for place, (name, hatch, colour) in enumerate(
    zip(times[10], ("", "///", "...", "xxx"), ("#999999", "#D55E00", "#56B4E9", "#E69F00"), strict=True)
):
    relative = [100 * one[name] / one["default"] for one in times.values()]
    xs = [x + 0.21 * (place - 1.5) for x in range(len(times))]
    axes.bar(xs, relative, width=0.19, hatch=hatch, color=colour, edgecolor="black", lw=0.6, label=name)
    for x, height in zip(xs, relative, strict=True):
        axes.text(x, height + 1, f"{height:.0f}", ha="center", va="bottom", fontsize=8)
highest = max(100 * one[name] / one["default"] for one in times.values() for name in one)
axes.set_xticks(range(len(times)), [f"{count} layers" for count in times])
axes.set(
    title="Tiny layers, nothing unused: touching everything costs most",
    ylabel="computing time of a step\n(default: 100)",
    ylim=(0, 1.3 * highest),
)
axes.title.set_fontsize(10)
axes.legend(ncols=4, fontsize=8, frameon=False, loc="upper left")
plt.show()
assert max(times[100], key=times[100].get) == "all touched"


# %% [markdown]
# So “it costs time in every step” holds, and it holds for touching as well: here that is the most expensive way. It reads every weight
# once and adds a dense gradient of zeros to each, in every step, whether anything is unused or not. (On a GPU these are more
# kernels for each parameter.) Touch only what a step has left out, and you pay for that much. `static_graph` needs neither the
# walk nor the second all-reduce: how far its bars are from 100 says how much of the figure is noise.
#
# One price is in no figure. With the flag on, or with everything touched, a layer that you *forgot* to call is never mentioned
# again. That is the reason not to do it “to be safe”.
#
# ## No gradient, or a gradient of zeros
#
# For a head that is never used, all three ways give the right gradients. The training is not the same, though. Take two of
# them:

# %%
p = predict("08.weight_decay")

# %%
# %%ranks --predicted
changed = []
for way in ("find_unused_parameters", "all touched"):
    torch.manual_seed(0)
    net = TwoHeads()
    ddp, before = DistributedDataParallel(net, **WAYS[way]), net.right.weight.detach().clone()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = ddp(batch(step)).square().mean()
        if way == "all touched":
            loss = loss + 0 * sum(p.sum() for p in ddp.parameters())
        loss.backward()
        optimizer.step()
    gradient_is = "None" if net.right.weight.grad is None else "zeros"
    changed.append(not torch.equal(before, net.right.weight))
    print(f"{way:24}.grad is {gradient_is:6} the weight has changed: {changed[-1]}")
changed

# %% [markdown]
# A parameter that *no* rank has used keeps the `.grad` it had, here `None` (that is what the extra all-reduce is for:
# `finalize_bucket_dense` in `reducer.cpp`), and optimizers pass over `None`. Zeros are a gradient: weight decay moves a head
# that nobody trains, and momentum from earlier steps would, too. Where one rank alone has used it, all ranks get the mean, by
# any of the ways.
#
# ## A mixture of experts
#
# The graph that differs on every rank in every step by design: a router sends each token to one of four experts. Here is a
# small one, and tokens that go to other experts on each rank.


# %%
# %%ranks
class Experts(nn.Module):
    def __init__(self, skip_idle):
        super().__init__()
        self.router = nn.Linear(4, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.skip_idle = skip_idle
        with torch.no_grad():
            self.router.weight.copy_(torch.eye(4))

    def forward(self, x):
        gates = self.router(x).softmax(1)
        gate, choice = gates.max(1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = (choice == number).nonzero().flatten()
            if self.skip_idle and not len(mine):
                continue  # “saves a call”
            y = y.index_add(0, mine, gate[mine, None] * expert(x[mine]))
        return y, gates, choice


def tokens(rank):
    """Eight tokens; those of rank 0 look like experts 0 and 1, those of rank 1 like 1 and 2."""
    generator = torch.Generator().manual_seed(rank)
    kind = rank + torch.arange(8) % 2
    return torch.eye(4)[kind] * 2 + 0.3 * torch.randn(8, 4, generator=generator)


def expert_gradients(skip_idle, balance=None, **options):
    """Each expert's and the router's distance from one process that has all tokens, in percent."""
    torch.manual_seed(0)
    net = Experts(skip_idle)
    alone, ddp = copy.deepcopy(net), DistributedDataParallel(net, **options)
    everything = torch.cat([tokens(r) for r in range(world_size)])
    for model, x in ((alone, everything), (ddp, tokens(rank))):
        y, gates, choice = model(x)
        loss = (y - 1).square().mean()
        if balance:
            loss = loss + balance(gates, choice, shared=model is ddp)
        loss.backward()
    ddp._check_reducer_finalized()
    off = {}
    for name in ("router", "experts.0", "experts.1", "experts.2", "experts.3"):
        right = gradient(alone.get_submodule(name))
        off[name] = round(
            100 * ((gradient(net.get_submodule(name)) - right).norm() / (right.norm() + 1e-9)).item(), 2
        )
    return off


# %%
p = predict("08.expert")

# %%
# %%ranks --predicted --as out
counts = Experts(True)(tokens(rank))[2].bincount(minlength=4).tolist()
off = expert_gradients(skip_idle=True, find_unused_parameters=True)
print("tokens of experts 0 to 3:", counts)
off

# %%
_, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
bottom = [0] * 4
for r, (colour, hatch) in enumerate((("#0072B2", ""), ("#E69F00", "///"))):
    axes.bar(
        range(4),
        out["counts"][r],
        bottom=bottom,
        color=colour,
        hatch=hatch,
        edgecolor="black",
        label=f"rank {r}",
    )
    bottom = [low + high for low, high in zip(bottom, out["counts"][r], strict=True)]
axes.set_xticks(range(4), [f"expert {number}" for number in range(4)])
axes.set(title="Only expert 1 gets tokens on both ranks", ylabel="tokens", ylim=(0, 10))
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# Yes. One process divides by *all sixteen* tokens, wherever they went; each rank divides by its own eight, and DDP's two
# makes sixteen of that. A rank without tokens for the expert brings zeros, and that is what it should bring. Do not divide
# an expert's gradient by the number of ranks that used it.
#
# Now take the flag away, and with it the two lines that skip idle experts:

# %%
# %%ranks
expert_gradients(skip_idle=False)

# %% [markdown]
# Right, with DDP's default. **No token is a batch, too:** a `Linear` given a tensor of shape `(0, 4)` returns one of shape
# `(0, 4)`, is part of the graph, and its gradient is zeros. Every parameter, every rank, every step: DDP's count is reached,
# nothing has to be searched. Skipping idle experts is the optimisation that makes the flag necessary.
#
# ### The part of the loss that is no mean
#
# Many mixtures of experts add a term that keeps the load even: the share of tokens that an expert *got*, times the mean
# probability the router *gave* it, summed over experts. DDP averages gradients, so it is right for losses that are means over
# tokens. This is a product of two means.


# %%
# %%ranks
def balance_here(gates, choice, shared):
    share = choice.bincount(minlength=4) / len(choice)
    return 4 * (share * gates.mean(0)).sum()


def balance_everywhere(gates, choice, shared):
    share = choice.bincount(minlength=4) / len(choice)
    if shared:
        dist.all_reduce(share, dist.ReduceOp.AVG)  # four numbers
    return 4 * (share * gates.mean(0)).sum()


for balance in (balance_here, balance_everywhere):
    off = expert_gradients(False, balance)
    print(f"{balance.__name__:20} the router is {off['router']:.0f} % off")

# %% [markdown]
# Shares are counts and have no gradient, so a plain `all_reduce` before the loss is allowed, and what remains is linear in
# each rank's probabilities: a mean again. Four numbers on the wire. The wrong one trains all the same, only that each rank
# evens out its own part of the batch, and what that does depends on how many ranks there are.
#
# ## What goes wrong in real life
#
# **Frozen after wrapping.** A fine-tuning freezes the body, a few lines below the wrapper:

# %%
# %%ranks
ddp = DistributedDataParallel(TwoHeads())
ddp.module.body.requires_grad_(False)
ddp(batch(0), path="left+right").square().mean().backward()
try:
    ddp._check_reducer_finalized()
except RuntimeError as error:
    print(str(error).partition(" before")[0])
print("gradients of the heads, averaged:", apart(ddp.module.left.weight.grad) < 1e-6)

# %% [markdown]
# DDP reads `requires_grad` once, in its constructor, and waits for the body in every step. Freeze *before* wrapping, and
# wrap anew when that changes. (The other direction, thawed after wrapping, raises nothing at all: lesson 07.)
#
# **Silent for ever.** The worst rows of the matrix, as a script: `static_graph=True`, and a model that returns a dataclass.
# Ask the doctor (on the command line: `ddp-course doctor tidy.py`):

# %%
import tempfile
from pathlib import Path

from course_lib.scripts.examine import examine, verdict_text

TIDY = """
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Prediction:
    scores: torch.Tensor


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Prediction(self.layer(x))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(Net(), static_graph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).scores.square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "tidy.py"
    script.write_text(TIDY)
    print(verdict_text(examine(str(script), ranks=2)))

# %% [markdown]
# The weights differ from the second step on, and no backward was averaged: DDP hears of the first backward through the tensors
# in the output, and there is none that it can see. Return a tuple or a dictionary, register the dataclass, or leave the flag out.
#
# - **The error names a layer that you use.** It is used in the forward, but not in the loss; or it is behind a `detach()`, an
#   `argmax`, a `no_grad`.
# - **It comes after hours.** Random depth, a rare kind of batch: the first step in which this rank does without the layer.
#   Look at the step *before* the error: that one went wrong.
# - **With `static_graph=True` the model trains a little worse.** Compare gradients between ranks once (lesson 06, task 6).
#
# ## Rule of thumb
#
# > Give every parameter a gradient on every rank in every step, if only from a batch of no samples: then DDP needs no flag.
# > Touching what was left out does it, too, but touching *everything* can cost more than `find_unused_parameters`: measure. Take
# > the flag where zeros would move what should not move. `static_graph` only where each rank does the same
# > in all steps, and its output is a tensor, or a tuple or dictionary of them, all in the loss; and without `no_sync` in the first
# > step. And `_check_reducer_finalized()` after `backward()` while you develop.
#
# ## Your turn
#
# Three tasks wait in [exercises/08_unused](../exercises/08_unused.ipynb): name the unused ones before DDP complains, train a
# model that branches in three ways, and a mixture of experts with a balance term.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_post_forward` and `_DDPSink` explain most of the matrix in 100 lines.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation), section on the internal design.
# - Fedus, Zoph and Shazeer, *Switch Transformers*, JMLR 2022: routing to one expert, and the balance term.
#
# **Next:** [lesson 09](09_synchronised.ipynb), *What is synchronised, and when*. Or back to the [index](index.ipynb).
