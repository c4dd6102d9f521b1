# %% [markdown]
# # 06 · Forward/backward alternation
#
# > *“My GAN calls the discriminator twice before it calls `backward()`. The forum says that cannot work with DDP: it wants
# > forward, backward, forward, backward. But it trains. So is it right?”*
#
# “It trains” is the problem. A broken alternation may raise or hang, and then you are lucky. Or it gives gradients that are a
# little wrong, on every rank in another way. So you are not going to ask what *works*. You are going to measure,
# for many ways to call a wrapped model, how far its gradients are from the right ones.
#
# **You will be able to** say for any order of forward and backward what DDP does with it, find the orders that are wrong
# without a word, and repair a GAN step, a Siamese loss and an evaluation in the middle of training. 40 minutes.
#
# **Before this:** lessons 00 and 04. Two of DDP's flags are columns of a table here; lesson 08 explains them.

# %%
# %load_ext course_lib

# %% [markdown]
# ## A model, and what would be right
#
# The model is tiny and awkward on purpose: two blocks that may be taken in any order, several times or not at all, and
# (where you ask for it) a BatchNorm, whose running statistics are **buffers**.
#
# What is right? DDP promises the *mean over the ranks* of what each rank would have computed alone. So `right_gradients`
# calls the same model without DDP and averages its gradients by hand; `measure` says how far a wrapped one is from that.

# %%
# %%ranks 2
from functools import cache, partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

rank, world_size = dist.get_rank(), dist.get_world_size()


class Net(nn.Module):
    """Stem, a path through the blocks `l` and `r`, head."""

    def __init__(self, buffers):
        super().__init__()
        self.stem, self.head = nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6) if buffers else nn.Identity()
        self.l, self.r = (nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in "lr")

    def forward(self, x, path="lr", part=lambda block, x: block(x)):
        x = self.norm(self.stem(x))
        for name in path:
            x = part(getattr(self, name), x)
        return self.head(x)


class TwoHeads(Net):
    """The blocks side by side: two outputs of one body."""

    def forward(self, x):
        x = self.head(self.norm(self.stem(x)))
        return self.l(x), self.r(x)


class Twice(Net):
    """Nothing but a reentrant checkpoint around the whole network, used two times."""

    def forward(self, x):
        once = super().forward
        return checkpoint(once, checkpoint(once, x, use_reentrant=True), use_reentrant=True)


def loss(y, target=0.0):
    return (y - target).square().mean()


def batch(number):
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * number + rank))


def gradients(nets):
    """All gradients as one vector; zeros where there is none."""
    params = [p for net in nets for p in net.parameters()]
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in params])


def mean(vector):
    vector = vector.clone()
    dist.all_reduce(vector)
    return vector / world_size


@torch.no_grad()
def descend(nets, gradient):
    params = [p for net in nets for p in net.parameters()]
    for p, g in zip(params, gradient.split([p.numel() for p in params]), strict=True):
        p -= 0.1 * g.view_as(p)


def build(pattern, buffers):
    torch.manual_seed(0)
    return [pattern.net(buffers) for _ in range(pattern.models)]


def run_step(pattern, step, nets, models):
    for net in nets:
        net.zero_grad()
    pattern(batch(2 * step), batch(2 * step + 1), *models)
    return gradients(nets)


@cache
def right_gradients(pattern, buffers):
    """The gradients of three steps without DDP, averaged by hand."""
    nets, right = build(pattern, buffers), []
    for step in range(3):
        right.append(mean(run_step(pattern, step, nets, nets)))
        descend(nets, right[-1])
    return right


def measure(pattern, wrap, buffers=False):
    """How far a wrapped model's gradients are from the right ones (percent, the worst step), or the error's first words.

    They begin with "late: " where a step before the error was wrong, and nothing was raised then.
    """
    nets, worst, message = build(pattern, buffers), torch.zeros(()), ""
    try:
        models = [wrap(net) for net in nets]
        for step, right in enumerate(right_gradients(pattern, buffers)):
            got = run_step(pattern, step, nets, models)
            worst = worst.maximum((got - right).norm() / right.norm())
            descend(nets, right)
    except RuntimeError as error:
        message = str(error).partition(".")[0]
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    percent = round(100 * worst.item(), 3)
    return ("late: " if percent > 0.1 else "") + message if message else percent


# %% [markdown]
# ## Two forwards, then one backward
#
# A Siamese network: both images go through the same model, one loss, one backward. You will read that this “won't work”,
# that DDP's forward and backward have to take turns. The model has a BatchNorm, which is said to make it worse.

# %%
p = predict("06.one_backward")

# %% claims={"5": "wrong"}
# %%ranks --predicted --as out
PATTERNS = {}


def pattern(name, models=1, net=Net):
    def keep(function):
        function.models, function.net = models, net
        PATTERNS[name] = function
        return function

    return keep


@pattern("F F, one B")
def two_forwards(a, b, m):
    (loss(m(a)) + loss(m(b), target=1.0)).backward()


measure(two_forwards, DistributedDataParallel, buffers=True)

# %% [markdown]
# Zero percent off. The advice is the first thing you find, and on this torch it is wrong. (Further down you make it right
# again, by taking one line of DDP away.) So a Siamese loss needs nothing special: the squared distance of the two outputs, and one
# backward through both forwards. If one of the two is detached, or made under `no_grad`, only the other one trains the model.
#
# ## Two forwards, then two backwards
#
# The usual way to write a discriminator's step: a real and a fake batch, two losses, `backward()` for each. The sum of two
# gradients is the gradient of the sum, so it should not matter.

# %%
p = predict("06.two_backwards")

# %%
# %%ranks --predicted --as out


@pattern("F F, then B B")
def two_backwards(a, b, m):
    first, second = loss(m(a)), loss(m(b), target=1.0)
    first.backward()
    second.backward()


measure(two_backwards, DistributedDataParallel)

# %% [markdown]
# No error, no hang, no warning, and a gradient that is far off. It is not even the same wrong gradient on both ranks:

# %%
# %%ranks
from course_lib.watch import compare

torch.manual_seed(0)
ddp = DistributedDataParallel(nn.Linear(6, 6))
two_backwards(batch(0), batch(1), ddp)
compare(ddp)

# %% [markdown]
# Weights are equal, gradients are not. After the optimizer's step the weights will differ as well, and nothing in DDP ever
# makes them equal again. Each rank now trains a model of its own.
#
# ## The whole matrix
#
# Now everything people do with a wrapped model, in one go: nineteen patterns, three ways to make the wrapper, without and
# with buffers. `F` is a forward, `B` a backward.

# %%
# %%ranks


@pattern("A(B(x)), two DDP models", models=2)
def chained(a, b, outer, inner):
    loss(outer(inner(a))).backward()


@pattern("F B, F B")
def alternating(a, b, m):
    loss(m(a)).backward()
    loss(m(b), target=1.0).backward()


@pattern("F, B twice (retain_graph)")
def retained(a, b, m):
    y = m(a)
    loss(y).backward(retain_graph=True)
    loss(y, target=1.0).backward()


@pattern("two heads, one B", net=TwoHeads)
def heads_added(a, b, m):
    left, right = m(a)
    (loss(left) + loss(right, target=1.0)).backward()


@pattern("two heads, a B each", net=TwoHeads)
def head_by_head(a, b, m):
    left, right = m(a)
    loss(left).backward(retain_graph=True)
    loss(right, target=1.0).backward()


@pattern("two heads, F B each", net=TwoHeads)
def heads_by_turns(a, b, m):
    loss(m(a)[0]).backward()
    loss(m(b)[1], target=1.0).backward()


@pattern("F without B, then F B")
def discarded(a, b, m):
    m(b)
    loss(m(a)).backward()


@pattern("F, no_grad F, B")
def peek(a, b, m):
    first = loss(m(a))
    with torch.no_grad():
        m(b)
    first.backward()


@pattern("autograd.grad of parameters")
def functional(a, b, m):
    params = list(m.parameters())
    for p, g in zip(params, torch.autograd.grad(loss(m(a)), params), strict=True):
        p.grad = g


@pattern("F through .module, B")
def unwrapped(a, b, m):
    loss(getattr(m, "module", m)(a)).backward()


@pattern("gradient penalty")
def penalty(a, b, m):
    y = m(a.requires_grad_())
    (g,) = torch.autograd.grad(y.sum(), a, create_graph=True)
    (loss(y) + (g.norm(dim=1) - 1).square().mean()).backward()


@pattern("frozen F B, then F B")
def frozen_first(a, b, m):
    m.requires_grad_(False)  # as in a generator's turn: the gradient goes through the model, not into it
    loss(m(b.requires_grad_())).backward()
    m.requires_grad_(True)
    loss(m(a)).backward()


@pattern("F F on different paths, one B")
def branches(a, b, m):
    (loss(m(a, path="l")) + loss(m(b, path="r"))).backward()


@pattern("checkpoint, blocks twice")
def modern(a, b, m):
    loss(m(a, path="lrlr", part=partial(checkpoint, use_reentrant=False))).backward()


@pattern("reentrant checkpoint")
def reentrant(a, b, m):
    loss(m(a, part=partial(checkpoint, use_reentrant=True))).backward()


@pattern("reentrant, blocks twice")
def reentrant_twice(a, b, m):
    loss(m(a, path="lrlr", part=partial(checkpoint, use_reentrant=True))).backward()


@pattern("reentrant, whole model twice", net=Twice)
def reentrant_whole(a, b, m):
    loss(m(a.requires_grad_())).backward()


# %%
# %%ranks --as out
MODES = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
}
found = {
    (name, mode, buffers): measure(pattern, partial(DistributedDataParallel, **options), buffers)
    for name, pattern in PATTERNS.items()
    for mode, options in MODES.items()
    for buffers in (False, True)
}
len(found)

# %% [markdown]
# (The warning is `find_unused_parameters` searching in vain: in most patterns all parameters are used.)
#
# In three more patterns the ranks do *different* things: rank 0 alone evaluates in the middle of training, through the
# wrapper, under `no_grad` or not. Some of those cells are going to hang or to kill a rank, so each gets two ranks of its
# own. A deadlock is proved, as in lesson 00, so nobody waits for a timeout. What is right is computed without a message
# here: each rank knows the other one's samples as well.


# %%
def rank_0_evaluates(options, buffers, after, grad):
    """Three steps; after one of them, rank 0 alone calls the wrapped model once more. Percent off, at worst."""
    import copy

    import torch
    import torch.distributed as dist

    rank, worst = dist.get_rank(), 0.0
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(6) if buffers else torch.nn.Identity()
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), norm)
    twin = copy.deepcopy(net)
    ddp = torch.nn.parallel.DistributedDataParallel(net, **options)

    def gradients(model, x):
        model.zero_grad()
        (model(x) - 1).pow(4).mean().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    for step in range(3):
        seeds = [torch.Generator().manual_seed(10 * step + r) for r in range(2)]
        batches = [torch.randn(4, 6, generator=seed) for seed in seeds]
        right = sum(gradients(twin, x) for x in batches) / 2
        worst = max(worst, ((gradients(ddp, batches[rank]) - right).norm() / right.norm()).item())
        if step == after and rank == 0:
            ddp.eval()
            with torch.set_grad_enabled(grad):
                ddp(torch.ones(4, 6))
            ddp.train()
    return round(100 * worst, 3)


from concurrent.futures import ThreadPoolExecutor

from course_lib import run_quietly

MODES = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
}
found = dict(out["found"][0])
ALONE = {
    "rank 0: no_grad F after step 0": (0, False),
    "rank 0: no_grad F after step 1": (1, False),
    "rank 0: F with gradients on": (0, True),
}
cells = [(name, mode, buffers) for name in ALONE for mode in MODES for buffers in (False, True)]
with ThreadPoolExecutor(4) as pool:
    runs = [pool.submit(run_quietly, rank_0_evaluates, MODES[m], b, *ALONE[n], ranks=2) for n, m, b in cells]
for cell, end in zip(cells, (each.result() for each in runs), strict=True):
    found[cell] = max(end.values.values()) if end.kind == "ok" else end.kind.value

# %% [markdown]
# The table first, as text:

# %% claims={"1": "holds", "7": "wrong", "34": "refined"}
names = list(dict.fromkeys(name for name, _, _ in found))
texts = {value.removeprefix("late: ") for value in found.values() if isinstance(value, str)}
messages = sorted(texts - {"hang", "died"})


def word(value):
    """A cell of the table in a word or two."""
    if isinstance(value, str):
        late, _, message = value.rpartition(": ")
        ends = {"hang": "hangs", "died": "rank dies"}
        return ends.get(message) or f"{late or 'raises'} [{messages.index(message) + 1}]"
    return "right" if value < 0.1 else f"wrong {value:.0f} %"


print(" " * 32 + "".join(f"{mode:25}" for mode in MODES))
print(" " * 32 + "".join(f"{'no buffers':13}{'buffers':12}" for _ in MODES))
for name in names:
    words = [word(found[name, mode, buffers]) for mode in MODES for buffers in (False, True)]
    print(f"{name:32}" + "".join(f"{w:{13 - i % 2}}" for i, w in enumerate(words)).rstrip())
for number, message in enumerate(messages, 1):
    print(f"[{number}] {message}")
print("late: it raises after a step that was wrong without a word")

# %% [markdown]
# And as a picture. A colour and a sign for each of the six ways to end:

# %%
import matplotlib.pyplot as plt

LOOKS = {  # colour, hatch, sign
    "right": ("white", "", "✓"),
    "wrong": ("#D55E00", "xx", "≠"),
    "late": ("#D55E00", "..", "≠ !"),
    "raises": ("#56B4E9", "..", "!"),
    "hangs": ("#E69F00", "//", "…"),
    "rank dies": ("#999999", "\\\\", "†"),
}


def kind(value):
    return next(kind for kind in LOOKS if word(value).startswith(kind))


columns = [(mode, buffers) for mode in MODES for buffers in (False, True)]
_, axes = plt.subplots(figsize=(7.4, 7.2), layout="constrained")
for y, name in enumerate(names):
    for x, (mode, buffers) in enumerate(columns):
        text = word(found[name, mode, buffers])
        colour, hatch, sign = LOOKS[kind(found[name, mode, buffers])]
        box = plt.Rectangle(
            (x - 0.5, y - 0.5), 1, 1, facecolor=colour, hatch=hatch, edgecolor="#666666", lw=0.5, alpha=0.6
        )
        axes.add_patch(box)
        label = axes.text(x, y, f"{sign} {text.partition(' [')[0]}", ha="center", va="center", fontsize=8)
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.85})
for x in (1.5, 3.5):
    axes.axvline(x, color="black", lw=1.5)
axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(names) - 0.5, -0.5))
axes.set_xticks(
    range(len(columns)), ["buffers" if buffers else "no buffers" for _, buffers in columns], fontsize=8
)
axes.set_yticks(range(len(names)), names, fontsize=8)
axes.tick_params(length=0)
for x, mode in enumerate(MODES):
    axes.text(2 * x + 0.5, -0.65, mode, ha="center", va="bottom", fontsize=9, weight="bold")
axes.set_title(
    "“F F, then B B” is wrong (≠) in all six columns, and none of them raises (!)", fontsize=10, pad=18
)
plt.show()
assert {kind(found["F F, then B B", *column]) for column in columns} == {"wrong"}

# %% [markdown]
# (How many cells are wrong and how many raise says nothing: the rows were chosen, and other rows would give other numbers.)
#
# Go through it once with a finger:
#
# - **`A(B(x))` is right everywhere**, and so is a forward that is thrown away, or one under `no_grad` in between. You will
#   read that a forward without backward harms. It does not, unless the next backward is one under `no_sync`
#   ([lesson 10](10_accumulation.ipynb)).
# - **`F B, F B` is right**, where each backward reaches every parameter. That is how the DCGAN tutorial writes the discriminator.
#   With another head in each `F B`, only `find_unused_parameters` is right. **`F F, then B B` is wrong** in every mode. Two lines
#   in another order.
# - **`retain_graph`** is the same mistake with one forward. (Without it the first backward frees the graph, and the second
#   raises.) With `autograd.grad` or `.module` nothing is averaged at all: DDP does not see that gradient, or that forward.
# - **`static_graph=True` makes the reentrant checkpoint right and the gradient penalty wrong.** No setting is right everywhere.
# - **Checkpointing.** You will read that it saves memory under DDP. Which of its two variants you take decides whether the
#   gradients are still right. `use_reentrant=False`: always. Reentrant, in the default mode: as long as each parameter is
#   used once. Used twice it raises, or is silently wrong if the *whole* model is inside.
# - **One rank alone** is fine without buffers. With buffers it is right by accident, or kills a rank, or hangs.
#
# ## A reducer in 25 lines
#
# Why these, and not others? Everything in the first column follows from a state so small that you can write it yourself.
# DDP's reducer hangs a hook on every *parameter*, not on a forward: it fires when that parameter's gradient has been
# accumulated. Between forward and backward it keeps one flag, *armed*, and one tally sheet: whose gradient is there?

# %%
# %%ranks


class TinyDDP(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module, self.armed, self.ready = module, False, set()
        for p in module.parameters():
            dist.broadcast(p.detach(), src=0)
            p.register_post_accumulate_grad_hook(self.hook)

    def forward(self, *args, **kwargs):
        if torch.is_grad_enabled() and self.ready:  # a sheet was begun and never got full
            raise RuntimeError("Expected to have finished reduction in the prior iteration")
        y = self.module(*args, **kwargs)
        self.armed = self.armed or torch.is_grad_enabled()
        return y

    def hook(self, p):
        if not self.armed:
            return  # nobody asked for an average: the gradient stays as this rank computed it
        if id(p) in self.ready:
            raise RuntimeError("Expected to mark a variable ready only once")
        self.ready.add(id(p))
        if len(self.ready) == len(list(self.module.parameters())):  # the sheet is full
            torch.autograd.Variable._execution_engine.queue_callback(self.average)

    def average(self):  # at the end of the whole backward
        for p in self.module.parameters():
            p.grad = mean(p.grad)
        self.armed, self.ready = False, set()


def same(tiny, real):
    """The same error, or percentages that differ by rounding only."""
    return real.startswith(tiny) if isinstance(tiny, str) else abs(tiny - real) < 0.01


tiny = {name: measure(pattern, TinyDDP) for name, pattern in PATTERNS.items()}
real = {name: found[name, "default", False] for name in PATTERNS}
assert all(same(tiny[name], real[name]) for name in PATTERNS)
if rank == 0:
    print(f"{'':32}{'TinyDDP':>9}{'DDP':>9}")
    for name in PATTERNS:
        shown = [f"{v:.0f} %" if isinstance(v, float) else "raises" for v in (tiny[name], real[name])]
        print(f"{name:32}{shown[0]:>9}{shown[1]:>9}")

# %% [markdown]
# In each of these nineteen rows: the same verdict, the same percentage where it is wrong, the same error where it raises. What
# TinyDDP leaves out: buckets, and with them sending during backward; buffers, frozen parameters, `no_sync`, and both flags. For
# the rest, read it off these lines:
#
# - *Two forwards, one backward.* A forward arms; arming twice is arming once. Autograd sums both paths *before* it accumulates
#   into a parameter, so each hook fires once. Nothing is missing.
# - *Two backwards.* The first fills the sheet, averages, disarms. In the second the hooks fire into `return`. What
#   you get is `mean(g1) + g2`, with everybody's own `g2`.
# - *`F B, F B`.* The second forward arms again. What is averaged is the whole `.grad`, not what was added last:
#   `mean(mean(g1) + g2)` is `mean(g1) + mean(g2)`.
# - *A backward that runs on into another model* (through generated samples that were not detached) fires the hooks of that
#   model, too, and disarms it. Its own backward then comes second, and is not averaged.
# - *A loss* passes no hook. The reducer averages what accumulates in parameters, once, and nothing else: each rank's loss is that
#   of its own samples until you average it, and gradients need no second reduction by hand.
# - *A forward that is thrown away* arms, and the next forward finds it armed.
# - *A forward under `no_grad`* neither arms nor disarms.
# - *A reentrant checkpoint* runs a backward of its own in the middle of the outer one, so hooks fire once for each use. If
#   the first of them already fills the sheet, it averages and disarms at its end, and the rest is ignored. If not, the second
#   gradient of a parameter raises.
#
# The real one has the same parts. `DistributedDataParallel._post_forward` (`torch/nn/parallel/distributed.py`) calls
# `reducer.prepare_for_backward` if gradients are enabled and `require_backward_grad_sync` is set (`no_sync()` clears it).
# In `torch/csrc/distributed/c10d/reducer.cpp`, `prepare_for_backward` sets `expect_autograd_hooks_`, puts each bucket's
# `pending` back to its number of gradients and empties `perIterationReadyParams_`. `autograd_hook` goes no further unless
# hooks are expected; `mark_variable_ready` counts `pending` down, raises at the second gradient of a parameter, and with the last
# bucket queues `finalize_backward` for the end of the backward (`queue_callback`). That waits for the buckets, writes the
# averages into `.grad` and clears the flag.
#
# And the other two columns? `find_unused_parameters` walks the graph *of the last forward* from its output
# (`search_unused_parameters`) and declares ready what it does not meet. With different paths, or behind a reentrant
# checkpoint, a parameter that was declared unused gets a gradient after all: “ready only once”. `static_graph` learns from
# the first backward how often each hook fires. For it, the first backward is the one that passes `_DDPSink.backward` first:
# in a gradient penalty the inner `autograd.grad`, in a generator's turn the one through the frozen model. No hook fires in
# those, and so it learns that there is nothing to wait for. In orders of plain forwards and of backwards that reach every
# parameter, DDP arms and disarms with both flags as it does without; with `static_graph`, from the second step on.
#
# ## Two heads, a backward for each
#
# One row in numbers, since training on several tasks is often written like this. Every weight is 1, the input is 1 on rank 0
# and 3 on rank 1, and the right head's output counts ten times. The gradients of body, left and right are to be 22, 2 and 20: the
# means of the ranks' own, 11 and 33, 1 and 3, 10 and 30.


# %%
# %%ranks
class Ones(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = (nn.Linear(1, 1, bias=False) for _ in range(3))
        for p in self.parameters():
            nn.init.ones_(p)

    def forward(self, x):
        x = self.body(x)
        return self.left(x).sum(), 10 * self.right(x).sum()


def one_backward(left, right):
    (left + right).backward()


def a_backward_each(left, right):
    left.backward(retain_graph=True)
    right.backward()


def two_steps(backwards, **options):
    """What each of two steps leaves in .grad; or the first words of an error, and the end."""
    ddp = DistributedDataParallel(Ones(), **options)
    for _ in range(2):
        ddp.zero_grad()
        try:
            backwards(*ddp(torch.full((1, 1), 1.0 + 2 * rank)))
        except RuntimeError as error:
            yield " ".join(str(error).split()[:8])
            return
        yield [p.grad.item() for p in ddp.parameters()]


for backwards in (a_backward_each, one_backward):
    for mode, options in MODES.items():
        print(f"{backwards.__name__}, {mode}:", *two_steps(backwards, **options), sep="\n    ")

# %% [markdown]
# The default mode is the safe one. The left head's backward leaves the right head's place on the sheet empty, so nothing is
# averaged; the right head's backward brings the body a second gradient, and that raises. The message proposes `static_graph`,
# and people set `find_unused_parameters=True`. With either, the first backward averages and disarms, and the second adds each
# rank's own: 12 and 32 in the body, 10 and 30 in the right head. The error comes in the next step, and speaks of something
# else. Add the losses, and it is right in all three modes.
#
# ## What is sent, and when
#
# Now the real collectives, of a model with buffers. Each line of this cell is one forward or one backward:

# %%
# %%ranks --as out
m = DistributedDataParallel(Net(buffers=True))
y1 = m(batch(0))
y2 = m(batch(1))
loss(y1).backward()
loss(y2).backward()
y3 = m(batch(2))
with torch.no_grad():
    m(batch(3))
y4 = m(batch(4))
(loss(y3) + loss(y4)).backward()

# %%
calls = {2: "F", 3: "F", 4: "B", 5: "B", 6: "F", 8: "no_grad F", 9: "F", 10: "B of both"}  # lines of the cell
sent = {line: [] for line in calls}
begin = min(c.origin.line for c in out.collectives[0] if c.stage == "buffers") - 2
for c in out.collectives[0]:
    if c.stage in ("buffers", "rebuild", "gradients") and c.stage not in sent[c.origin.line - begin]:
        sent[c.origin.line - begin].append(c.stage)
for line, call in calls.items():
    print(f"{call:12}{', '.join(sent[line]) or '-'}")

# %%
MARKS = {"buffers": ("s", "#0072B2"), "rebuild": ("^", "#009E73"), "gradients": ("o", "#D55E00")}
_, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
places = list(calls)
for row, (stage, (marker, colour)) in enumerate(MARKS.items()):
    x = [place for place, line in enumerate(places) if stage in sent[line]]
    axes.plot(x, [row] * len(x), marker, color=colour, markersize=12, markeredgecolor="black", clip_on=False)
silent = [place for place, line in enumerate(places) if calls[line].startswith("B") and not sent[line]]
axes.plot(silent, [2] * len(silent), "x", color="black", markersize=10, markeredgewidth=2)
for place in silent:
    axes.text(place, 1.2, "sends nothing:\nits gradient\nstays local", ha="center", va="center", fontsize=8)
axes.set_yticks(range(3), ["buffers of rank 0", "new buckets", "gradients"])
axes.set_xticks(range(len(places)), calls.values(), fontsize=8)
axes.set(ylim=(2.5, -0.5), xlim=(-0.5, len(places) - 0.5))
axes.set_title("The backward after a forward averages; arming twice is arming once", fontsize=10)
axes.grid(axis="x", alpha=0.3)
plt.show()

# %% [markdown]
# A second kind of message shows up here. A forward *begins* with a broadcast of rank 0's buffers, so a model with buffers
# communicates in forwards, too. But after a forward under `no_grad` or `no_sync`, the next one sends none.
# `_pre_forward` asks `will_sync_module_buffers`, which looks at `require_forward_param_sync`, and `_post_forward` of the
# forward *before* has set that: `True` if it armed, `False` if not. (What this does to BatchNorm is lesson 09.)
#
# The third kind, `rebuild`, comes once, here in the first forward after the first average: rank 0 broadcasts in which buckets
# gradients are going to travel from now on (`rebuild_buckets` and `sync_bucket_indices` in `reducer.cpp`; lesson 04).
#
# ## The guard
#
# So the second forward overwrites the BatchNorm's statistics in place, and the first forward's backward has not run yet.
# Autograd counts the changes to tensors that it has saved, and refuses when the count is off. `_sync_buffers` therefore puts
# a guard around the broadcast, `torch.autograd._unsafe_preserve_version_counter`: change the values, but do not count. That
# is harmless here, since in train mode BatchNorm's backward does not use the running statistics. Take the guard away:

# %% claims={"S2": "outdated"}
# %%ranks --expect raises:RuntimeError
from contextlib import nullcontext
from unittest.mock import patch

with patch.object(torch.autograd, "_unsafe_preserve_version_counter", lambda buffers: nullcontext()):
    m = DistributedDataParallel(Net(buffers=True))
    total = loss(m(batch(0))) + loss(m(batch(1)))
    total.backward()

# %% [markdown]
# These are the two forwards that were zero percent off at the top of this lesson, and that is the error behind much of the old
# advice. It was first reported in 2019 (issue 22095 of `pytorch/pytorch`); the guard came with pull request 175851, in 2026.
# On a torch without it, two forwards of a model with BatchNorm still raise.
#
# ## One rank evaluates
#
# Only rank 0 logs, so only rank 0 evaluates. Without buffers that is fine: the one message that a forward can then send, the
# new buckets, comes once on every rank, here a little earlier, there a little later. With buffers, rank 0's extra forward
# begins with a broadcast that nobody else is in:

# %%
# %%ranks --expect hang
m = DistributedDataParallel(Net(buffers=True))
for step in range(3):
    loss(m(batch(step))).backward()
    if rank == 0:
        m.eval()
        m(batch(9))
        m.train()

# %% [markdown]
# The doctor names the line, the condition around it, and the way out. Mind where the ranks *stand*: not in the evaluation.
# Its broadcast was met by the one of rank 1's next training forward, and from then on the ranks are shifted by one message.
# `eval()` does not help: the wrapper does not ask for it.
#
# And under `no_grad`? Look at the matrix again: mostly right, and right by accident. Rank 0's extra broadcast is met
# by rank 1's *next training* forward, and rank 0's own next training forward sends none, because the forward before
# it had no gradients. Two wrongs, and the count is even. It breaks when that next forward of rank 1 has something
# else to send first, the new buckets: one bucket list meets one set of statistics, the sizes differ, and gloo aborts
# the rank that receives too much. In the default mode that is the second step. With `static_graph=True` it is the
# third, since the first backward only learns; with `find_unused_parameters=True` buckets are never rebuilt. You do
# not want to know these numbers. Call `m.module(x)` instead: no wrapper, no message, no accident.
#
# Switch the module to `eval()` for it and back to `train()` after it. In train mode, BatchNorm would normalise the validation
# samples with their own statistics and mix these into its running statistics. And a model that is left in eval mode goes on
# training with frozen statistics.
#
# > **On GPUs (NCCL).** Forward and `backward()` return before their messages are through. The ranks wait at the next line that
# > needs a number from the GPU, until the watchdog ends them (lesson 05). And that gloo aborts a rank where sizes differ is gloo's:
# > NCCL demands the same count on every rank, and without it anything may come: a hang, a crash, corrupted data
# > ([Collective operations](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/collectives.html)). (Read, not run here.)

# %%
# %%ranks
m = DistributedDataParallel(Net(buffers=True))
for step in range(3):
    loss(m(batch(step))).backward()
    if rank == 0:
        m.module.eval()
        with torch.no_grad():
            m.module(batch(9))
        m.module.train()
"no rank waits"

# %% [markdown]
# ## Two models, two process groups?
#
# `A(B(x))` was right in all six columns, with both models in the default group. As long as every rank makes the same calls
# in the same order, groups of their own change nothing. They are recommended all the same: “if it hangs, give each model its
# own process group, and they are decoupled.” Try it on the order of calls: rank 1 takes the models in another order
# (a `set` of losses, a dictionary filled in another order, a coin).


# %% claims={"3": "incomplete", "S24": "incomplete"}
def swapped(one_backward, own_groups, warm_up, width=6):
    """Two models; after `warm_up` equal steps rank 1 takes them in the other order. Percent off, at worst."""
    import copy

    import torch
    import torch.distributed as dist

    rank, worst = dist.get_rank(), 0.0
    torch.manual_seed(0)
    nets = [torch.nn.Linear(6, 6), torch.nn.Linear(6, width)]
    twins = copy.deepcopy(nets)
    wrap = torch.nn.parallel.DistributedDataParallel
    models = [wrap(net, process_group=dist.new_group() if own_groups else None) for net in nets]

    def train(two, order, x):
        losses = []
        for number in order:
            two[number].zero_grad()
            losses.append((two[number](x) - number).square().mean())
            if not one_backward:
                losses[-1].backward()
        if one_backward:
            sum(losses).backward()

    for step in range(warm_up + 3):
        order = (1, 0) if rank == 1 and step >= warm_up else (0, 1)
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * step + rank))
        train(models, order, x)
        train(twins, order, x)
        for net, twin in zip(nets, twins, strict=True):
            right = twin.weight.grad.clone()
            dist.all_reduce(right, op=dist.ReduceOp.AVG)
            worst = max(worst, ((net.weight.grad - right).norm() / right.norm()).item())
    return 100 * worst


orders = [(both, own, warm_up) for both in (False, True) for own in (False, True) for warm_up in (0, 2)]
with ThreadPoolExecutor(4) as pool:
    runs = [pool.submit(run_quietly, swapped, *order, ranks=2) for order in [*orders, (False, False, 0, 8)]]
ends = [run.result() for run in runs]
words = [word(max(end.values.values()) if end.kind == "ok" else end.kind.value) for end in ends]

print(f"{'':18}{'one group':28}groups of their own")
print(f"{'':18}{'at once':14}{'after 2 steps':14}{'at once':14}after 2 steps")
for name, row in {"F B, then F B": words[:4], "F F, one B": words[4:8]}.items():
    print(f"{name:18}" + "".join(f"{w:14}" for w in row).rstrip())
print(f"{'other shapes':18}{words[8]}")

# %% [markdown]
# In one group nothing hangs. It is worse: the first all-reduce of rank 0 meets the first of rank 1, and that is model A's
# gradient against model B's. The shapes agree, the average is nonsense, and both models train on it. With other shapes (the
# last line) gloo aborts a rank, which is the lucky case.
#
# Groups of their own repair one corner out of four. `backward()` does not return before its own reduction is done, so ranks
# that take models one by one wait for each other in different groups for ever. With one backward for both the all-reduces
# may start in any order, but the rebuilding of the buckets is a broadcast that *blocks in the forward*, and there the order
# counts again. After it, and without buffers, the two no longer wait for each other. That holds for gloo.
#
# > **On GPUs.** Not even this corner is safe with NCCL. The documentation of `new_group` (“Safe concurrent usage”)
# > demands “a globally consistent execution order of collectives across ranks”, *over all groups*: without it,
# > kernels of two groups may wait for each other. (Read in `torch/distributed/distributed_c10d.py`, not run here.)
#
# So: not wrong, but no cure. What groups of their own do is turn a silent mixture into a deadlock that somebody notices.
# Make the order the same on all ranks.

# %% [markdown]
# ## What goes wrong in real life
#
# A GAN's discriminator step, as many repositories have it. It runs, its losses go down. Ask the doctor (on the command line:
# `ddp-course doctor gan.py`):

# %%
import tempfile
from pathlib import Path

from course_lib.scripts.examine import examine, verdict_text

GAN = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
discriminator = DistributedDataParallel(torch.nn.Linear(6, 1))
optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    real, fake = discriminator(torch.randn(4, 6)), discriminator(torch.randn(4, 6))
    torch.nn.functional.softplus(-real).mean().backward()
    torch.nn.functional.softplus(fake).mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "gan.py"
    script.write_text(GAN)
    print(verdict_text(examine(str(script), ranks=2)))

# %% [markdown]
# The order within the step matters, too. The generator's backward also leaves gradients in the discriminator: clear them before
# the discriminator's next backward. And the generator's loss is computed after the discriminator's step, because it is to meet
# the new discriminator.
#
# - **Loss curves that differ a little more between ranks every hour.** Two backwards, `.module` or `autograd.grad` in the
#   training path. Compare gradients on all ranks once, before the first step of the optimizer: task 4. Such a check compares
#   copies, because collectives that work in place would change the gradients. It calls the same collectives on every rank, also
#   where a gradient is `None`, and it counts `None` as a value of its own, not as zeros. And it lets every rank hear what all
#   others have found: ranks that only compare themselves with rank 0 return different lists, and rank 0's is empty.
# - **“Expected to mark a variable ready only once.”** A backward for each head: add the losses. Reentrant checkpointing: take
#   `use_reentrant=False`. `find_unused_parameters=True` with forwards on different paths: take the flag away. (Lessons 07 and 08
#   have more causes.)
# - **A hang or an abort at the first evaluation**, with “Connection closed by peer” on the rank that did nothing wrong. One
#   rank called the wrapper alone.
# - **It works until somebody adds a BatchNorm.** With buffers, nearly every forward is a collective.
#
# ## Rule of thumb
#
# > A forward through the wrapper arms; arming twice is arming once. The next backward averages what is in `.grad`, and disarms:
# > by default it has to reach every parameter. So add the losses, and call `backward()` once. A forward around the wrapper does not arm;
# > what only one rank does must go around it.
#
# ## Your turn
#
# Four tasks wait in [exercises/06_alternation](../exercises/06_alternation.ipynb): a GAN step, a Siamese loss, an evaluation
# during training, and the check that finds silent divergence.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `_pre_forward` and `_post_forward`, together 140 lines, hold most of this lesson.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation), section on the internal design.
# - PyTorch, `torch.utils.checkpoint` in the API reference: what the two variants of checkpointing do differently.
#
# **Next:** [lesson 07](07_wrappers.ipynb), *Wrapper modules*. Or back to the [index](index.ipynb).
