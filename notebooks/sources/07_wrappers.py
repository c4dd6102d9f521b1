# %% [markdown]
# # 07 · Wrapper modules
#
# > *“My model has an `encode` and a `decode`, takes two inputs and brings its own loss. DDP has one `forward`. I call
# > `model.module.encode(x)` now, and it trains. Is that all right?”*
#
# “It trains” says nothing: a model that every rank trains alone does that as well. DDP wraps *one* module and knows *one*
# `forward`. So people write a module around their models, a **wrapper module**, and put DDP around that. This lesson is about
# what belongs into it, and about what becomes of the things that are kept outside.
#
# **You will be able to** put several models, inputs and a loss into one `forward`; call other methods without losing
# the average; say of any parameter whether DDP looks after it; and keep a teacher out of it. 85 minutes.
#
# **Before this:** lessons 00 and 04; lesson 06 helps.

# %%
# %load_ext course_lib

# %% [markdown]
# ## The wrapper from the forum
#
# Two models: `B` takes two images and gives two features, `A` takes two features and gives a score. A forum's advice, where a
# model is needed twice before one backward: a wrapper whose *one* `forward` runs it on both inputs. `B` below is such a wrapper
# around its layer. This lesson goes a step further and puts `A` inside as well. Taken down from memory, as one does, that has
# three mistakes.

# %%
# %%ranks 2
import copy
import warnings
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.watch import compare

rank, world_size = dist.get_rank(), dist.get_world_size()


class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, images):
        first, second = images
        return self.layer(first).tanh(), self.layer(second).tanh()


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Bilinear(4, 4, 1)

    def forward(self, one, other):
        return self.score(one, other)


def batch(number, size=8):
    """This rank's samples: others on every rank and in every step."""
    return torch.randn(size, 4, generator=torch.Generator().manual_seed(10 * number + rank))


# %%
# %%ranks --expect raises:AttributeError
class Both(nn.Module):
    def __init__(self, a, b):
        self.a, self.b = a, b
        super().__init__()

    def forward(self):
        return self.a(self.b(images))


Both(A(), B())


# %% [markdown]
# `nn.Module` keeps submodules in a dictionary that its own `__init__` makes, so that one comes first. The other order
# is an error only for modules, parameters and buffers: a number assigned too early goes through
# (`Module.__setattr__`, `torch/nn/modules/module.py`). Next:


# %%
# %%ranks --expect raises:TypeError
class Both(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self):
        return self.a(self.b(images))


torch.manual_seed(0)
both = DistributedDataParallel(Both(A(), B()))
both([batch(0), batch(1)])

# %% [markdown]
# This `forward` takes nothing but `self`, and hopes to find `images` outside. You hear of it not when the wrapper is
# made, but at its first call. Put them in, and the last mistake shows:


# %%
# %%ranks --expect raises:TypeError
class Both(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, images):
        return self.a(self.b(images))


torch.manual_seed(0)
both = DistributedDataParallel(Both(A(), B()))
both([batch(0), batch(1)])

# %% [markdown]
# `B` returns two features, which is *one* tuple, and `A` wants two arguments. A star hands them on one by one. And
# now, with one backward, the gradients are to be those of one process that has the samples of both ranks. (The loss is a
# mean over samples, and no sample has a say in another one's loss. Where it has, see below.)

# %% claims={"6": "refined"}
# %%ranks


class Both(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, images):
        return self.a(*self.b(images))


def everyones(x):
    """The samples of all ranks, in one batch."""
    parts = [torch.empty_like(x) for _ in range(world_size)]
    dist.all_gather(parts, x)
    return torch.cat(parts)


torch.manual_seed(0)
net = Both(A(), B())
alone = copy.deepcopy(net)
both = DistributedDataParallel(net)
for step in range(3):
    images = [batch(2 * step), batch(2 * step + 1)]
    both.zero_grad()
    alone.zero_grad()
    both(images).square().mean().backward()
    alone([everyones(x) for x in images]).square().mean().backward()
    for mine, right in zip(both.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, right.grad)
"the gradients of one process with all samples"

# %% [markdown]
# So the wrapper solves it, as soon as it runs. However often you call a model *inside* of one forward, DDP sees one
# forward. (Lesson 06 shows what it makes of several.) Positional and keyword arguments go through to your module
# (with `device_ids`, tensors are moved to the GPU first), and the output may be a tensor, a tuple, a dictionary:
# `_run_ddp_forward` (`torch/nn/parallel/distributed.py`) is one call of `self.module(*inputs, **kwargs)`.
#
# Two things to mind when you write your own. A `forward(self, *inputs)` takes any number of inputs. And autograd goes back through
# what is returned: an output that is detached, or made under `no_grad`, trains nothing that lies before it.
#
# ## One wrapper, or one for each model
#
# `A(B(x))` with a DDP around each is right as well (lesson 06). What is the difference?

# %%
p = predict("07.two_wrappers")

# %%
# %%ranks --predicted --as out
a, b = DistributedDataParallel(A()), DistributedDataParallel(B())
images = [batch(0), batch(1)]
hooked = []


def count(state, bucket):
    hooked.append(bucket.buffer().numel())
    return (
        dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] / world_size)
    )


for model in (both, a, b):
    model.register_comm_hook(None, count)
both(images).mean().backward()
one = len(hooked)
a(*b(images)).mean().backward()
sent = [one, len(hooked) - one]
print("numbers in each message:", hooked)

# %% [markdown]
# A bucket never holds gradients of two wrappers. With models as small as these that is one message more; with large
# ones, which fill their buckets, it hardly matters. What does matter is the *count* that each wrapper keeps. Train
# `A` in a turn of its own:


# %%
# %%ranks
class Switched(Both):
    def forward(self, images, train="ab"):
        return super().forward(images) if "b" in train else self.a(*images)


features = [batch(0).tanh(), batch(1).tanh()]
a(*features).mean().backward()
a._check_reducer_finalized()
print("A alone, in a DDP of its own: averaged")
both = DistributedDataParallel(Switched(A(), B()))
both(features, train="a").mean().backward()
try:
    both._check_reducer_finalized()
except RuntimeError as error:
    print("A alone, in a DDP around both:", str(error).partition(" before")[0])

# %% [markdown]
# (`_check_reducer_finalized` says at once what the next forward would say; lesson 08.) So: **what is trained together
# in every step goes into one wrapper. What takes turns, such as a generator and a discriminator, gets a DDP each.**
#
# ## Only `forward` goes through
#
# Now a model with two methods. DDP has neither of them:


# %%
# %%ranks --expect raises:AttributeError
class Auto(nn.Module):
    """An autoencoder without a forward."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 2), nn.Linear(2, 4)

    def encode(self, x):
        return self.inner(x).tanh()

    def decode(self, code):
        return self.outer(code)


torch.manual_seed(0)
ddp = DistributedDataParallel(Auto())
ddp.encode(batch(0))

# %% [markdown]
# A module knows its own attributes, parameters and submodules (`Module.__getattr__`), and not the methods of a
# submodule. So everybody writes `ddp.module.encode`. `--watch` lets the doctor look on:

# %%
# %%ranks --watch
ddp = DistributedDataParallel(Auto())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(3):
    x = batch(step)
    optimizer.zero_grad()
    loss = (ddp.module.decode(ddp.module.encode(x)) - x).square().mean()
    loss.backward()
    optimizer.step()

# %% [markdown]
# No error, and two models instead of one. `DistributedDataParallel.forward` is three calls: `_pre_forward`, your
# module, `_post_forward` (`torch/nn/parallel/distributed.py`). The last one arms the reducer, the next backward fires
# it. Around the wrapper nothing is armed, and the hooks on the parameters fire into nothing (lesson 06 builds that in
# 25 lines).
#
# Now add a term of your own to the loss, computed around the wrapper:

# %%
p = predict("07.second_term")


# %%
# %%ranks --predicted --as out
class Whole(Auto):
    def forward(self, x):
        return self.decode(self.encode(x))


def off_by(parameters, loss, plain_loss):
    """How far the gradients that backward() leaves are from the mean of the ranks' own: percent, the worse rank."""
    parameters = list(parameters)
    own = torch.autograd.grad(plain_loss(), parameters)
    right = torch.cat([g.flatten() for g in own])
    dist.all_reduce(right)
    right /= world_size
    for parameter in parameters:
        parameter.grad = None
    loss().backward()
    got = torch.cat([torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters])
    off = (got - right).norm() / right.norm()
    dist.all_reduce(off, dist.ReduceOp.MAX)
    return round(100 * off.item(), 1)


torch.manual_seed(0)
net = Whole()
ddp = DistributedDataParallel(net)
x, other = batch(0), batch(1)


def through(model):
    return (model(x) - x).square().mean()


def around():
    return ddp.module.encode(other).square().mean()


def term_first():
    term = around()
    return term + through(ddp)


def thrown_away():
    ddp(x)
    return through(net)


def plain():
    return through(net) + around()


encoder = list(net.inner.parameters())
off = {
    "through the wrapper": off_by(encoder, lambda: through(ddp), lambda: through(net)),
    "around it": off_by(encoder, lambda: through(net), lambda: through(net)),
    "both terms": off_by(encoder, lambda: through(ddp) + around(), plain),
    "both terms, the other way round": off_by(encoder, term_first, plain),
    "around it, after a forward that is thrown away": off_by(encoder, thrown_away, lambda: through(net)),
}
for name, percent in off.items():
    print(f"{name:48}{percent:6.1f} % off")

# %% [markdown]
# Averaged, all of it. DDP does not follow what you compute. It hangs a hook on every *parameter*, autograd adds up
# all terms before a parameter's hook fires, and one forward through the wrapper in the step has armed them. The last
# line is the extreme: a forward whose output nobody uses has armed DDP for a computation that it never saw.
#
# Do not build on that line. But a weight decay of your own, or an auxiliary loss on `ddp.module.something`, *beside*
# a real forward, is right in the default mode.
#
# ### Doors for other methods
#
# The clean way: all roads lead through `forward`. One argument says which:


# %%
# %%ranks
class Doors(nn.Module):
    """Calls any method of `net` from forward: ddp("encode", x)."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, *args, **kwargs):
        return getattr(self.net, method)(*args, **kwargs)


torch.manual_seed(0)
net = Auto()
ddp = DistributedDataParallel(Doors(net))


def by_doors():
    return (ddp("decode", ddp("encode", x)) - x).square().mean()


def by_hand():
    return (net.decode(net.encode(x)) - x).square().mean()


print("encode, then decode, one backward:", off_by(net.parameters(), by_doors, by_hand), "% off")

ddp("encode", x).square().mean().backward()
try:
    ddp("encode", x)
except RuntimeError as error:
    print("encode alone:", str(error).partition(" before")[0])

# %% [markdown]
# Two doors in one step are two forwards, which is fine by default (lesson 06). One door alone leaves the decoder without
# gradients, and then you need one of lesson 08's ways out; task 2 is that. If it is `find_unused_parameters=True`, one door
# has to lead into the other, as above. Two doors side by side, their losses added, raise:


# %%
# %%ranks --expect raises:RuntimeError
def beside(doors):
    return doors("encode", x).square().mean() + doors("decode", other[:, :2]).square().mean()


for options in ({}, {"find_unused_parameters": True}):
    torch.manual_seed(0)
    doors = Doors(Auto())
    ddp = DistributedDataParallel(doors, **options)
    print(options, off_by(doors.parameters(), partial(beside, ddp), partial(beside, doors)), "% off")

# %% [markdown]
# After the second forward DDP has searched behind *its* output, and has declared the encoder unused.
#
# The same without touching the model: put the method in the place of `forward` for the time of a call. An attribute
# of the object comes before that of its class, and `nn.Module.__call__` asks for `self.forward`:


# %%
# %%ranks
def enter(ddp, method, *args, **kwargs):
    """`method` of the wrapped module, called through DDP."""
    ddp.module.forward = getattr(ddp.module, method)
    try:
        return ddp(*args, **kwargs)
    finally:
        del ddp.module.forward  # the class's own shows again


torch.manual_seed(0)
ddp = DistributedDataParallel(net)


def by_entering():
    return (enter(ddp, "decode", enter(ddp, "encode", x)) - x).square().mean()


print(off_by(net.parameters(), by_entering, by_hand), "% off")

# %% [markdown]
# That is a library's trick (Lightning Fabric has one like it); in a script of your own, write the door. While it lasts,
# *every* call of the module is that method: one from another thread, or `self(x)` inside the method, which then calls
# itself. And hooks that were registered for `forward` run for `encode`. FSDP2 has such a door ready,
# `register_fsdp_forward_method` in `torch.distributed.fsdp`; DDP has none.
#
# When is `.module` right? Where no gradient is wanted: evaluation (on one rank even, lesson 06), sampling,
# `state_dict`.
#
# ## The loss inside
#
# Losses have parameters sometimes: a temperature, class centres, weights between tasks. As a module of its own it
# looks like a function, and stands outside.

# %%
p = predict("07.temperature")


# %%
# %%ranks --watch --predicted --as out
class Tempered(nn.Module):
    """Cross-entropy; how sharply the scores are meant is learned."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, scores, labels):
        return nn.functional.cross_entropy(scores / self.temperature, labels)


def apart_by(tensor):
    """The largest difference between ranks."""
    low, high = tensor.detach().clone(), tensor.detach().clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return (high - low).max().item()


torch.manual_seed(0)
scorer, criterion = DistributedDataParallel(nn.Linear(4, 4)), Tempered()
optimizer = torch.optim.SGD([*scorer.parameters(), *criterion.parameters()], lr=0.1)
for step in range(3):
    x = batch(step)
    optimizer.zero_grad()
    criterion(scorer(x), x.argmax(1)).backward()
    optimizer.step()
apart = apart_by(criterion.temperature)

# %% [markdown]
# The model is averaged, the temperature is not. Into the wrapper with it, so that `forward` returns the loss:


# %%
# %%ranks --watch
class WithLoss(nn.Module):
    def __init__(self, scorer, criterion):
        super().__init__()
        self.scorer, self.criterion = scorer, criterion

    def forward(self, x):
        scores = self.scorer(x)
        return {"loss": self.criterion(scores, x.argmax(1)), "scores": scores.detach()}


torch.manual_seed(0)
learner = DistributedDataParallel(WithLoss(nn.Linear(4, 4), Tempered()))
optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    learner(batch(step))["loss"].backward()
    optimizer.step()
print("temperatures apart by", apart_by(learner.module.criterion.temperature))
compare(learner).parts["parameters"].equal

# %% [markdown]
# `learner.parameters()` is now everything that is trained, so nothing can be forgotten in the optimizer, either.
# What else is returned, for the log, is detached, and so does not keep its graph in memory. The *value* of the loss
# stays each rank's own.
#
# Here each sample has a loss of its own. A *contrastive* loss (CLIP, SimCLR) is of another kind: what a sample costs depends
# on all others in its batch, and a rank knows its own half only. To put such a loss into the wrapper is not enough:


# %%
# %%ranks
class FromAll(torch.autograd.Function):
    """The samples of all ranks, in one batch; backward adds up what every rank's loss asks of them."""

    @staticmethod
    def forward(ctx, x):
        return everyones(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient.chunk(world_size)[rank]


class Contrast(nn.Module):
    """Two views of a sample are to be more alike than two samples; how sharply is learned."""

    def __init__(self, collect):
        super().__init__()
        self.encoder, self.temperature = nn.Linear(4, 4), nn.Parameter(torch.tensor(0.5))
        self.collect = collect

    def forward(self, x, noise):
        one, other = self.collect(self.encoder(x)), self.collect(self.encoder(x + 0.1 * noise))
        return nn.functional.cross_entropy(one @ other.T / self.temperature, torch.arange(len(one)))


def gradient(model, *inputs):
    model(*inputs).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


x, noise = batch(0), batch(100)
for name, collect in (("its own samples", nn.Identity()), ("the samples of all ranks", FromAll.apply)):
    torch.manual_seed(0)
    alone = Contrast(nn.Identity())
    right = gradient(alone, everyones(x), everyones(noise))
    net = Contrast(collect)
    net.load_state_dict(alone.state_dict())
    got = gradient(DistributedDataParallel(net), x, noise)
    print(f"each rank contrasts {name}: {(got - right).norm() / right.norm():.0%} off")

# %% [markdown]
# The ranks agree, and are far off the gradient of one process with the whole batch. DDP averages what the ranks' losses
# give, and those losses are other ones. So the *features* have to be collected, with a way back for gradients
# (`dist.all_gather` alone has none), and every rank computes the whole loss. The same is true of any loss or layer in which
# samples meet: a BatchNorm is one (SyncBatchNorm: lesson 09).
#
# ## Who is looked after
#
# Now everything at once: ten places where a parameter can live. Each model is built with another seed on each rank.
# For the parameter in question: does wrapping make it equal? Is its gradient the mean over the ranks, in each of
# three steps?


# %%
# %%ranks --as out
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.more = nn.Linear(4, 4), nn.Linear(4, 4), []
        self.scale = nn.Parameter(torch.rand(()) + 1)

    def forward(self, x):
        x = self.body(x).tanh()
        for layer in self.more:
            x = layer(x)
        return self.head(x) * self.scale


def mean_square(y):
    return (y - 1).square().mean()


class ScaledOutside(Net):
    def forward(self, x):
        return self.head(self.body(x).tanh())


PLACES = {}


def place(name, kind=Net):
    def keep(function):
        PLACES[name] = kind, function
        return function

    return keep


def nothing(ddp):
    return None


# Each returns: what to do after wrapping, the parameter in question, the loss of a model.
@place("in forward")
def in_forward(net):
    return nothing, lambda: net.head.weight, lambda m, x: mean_square(m(x))


@place("in forward, and in the loss")
def in_both(net):
    return nothing, lambda: net.head.weight, lambda m, x: mean_square(m(x)) + net.head.weight.square().sum()


@place("in the module, used in the loss only", ScaledOutside)
def in_loss_only(net):
    return nothing, lambda: net.scale, lambda m, x: mean_square(m(x) * net.scale)


@place("tied: one weight, two layers")
def tied(net):
    net.head.weight = net.body.weight
    return nothing, lambda: net.body.weight, lambda m, x: mean_square(m(x))


@place("tied to a head outside")
def tied_outside(net):
    outside = nn.Linear(4, 4)
    outside.weight = net.body.weight
    return (
        nothing,
        lambda: outside.weight,
        lambda m, x: mean_square(nn.functional.linear(m(x), outside.weight)),
    )


@place("a head outside")
def head_outside(net):
    outside = nn.Linear(4, 4)
    return nothing, lambda: outside.weight, lambda m, x: mean_square(outside(m(x)))


@place("in a plain list of the module")
def in_list(net):
    net.more.append(nn.Linear(4, 4))
    return nothing, lambda: net.more[0].weight, lambda m, x: mean_square(m(x))


@place("added after wrapping")
def added(net):
    def add(ddp):
        net.new = nn.Linear(4, 4)
        net.more.append(net.new)

    return add, lambda: net.new.weight, lambda m, x: mean_square(m(x))


@place("put in another's place after wrapping")
def replaced(net):
    def replace(ddp):
        net.head = nn.Linear(4, 4)

    return replace, lambda: net.head.weight, lambda m, x: mean_square(m(x))


@place("frozen when wrapped, thawed later")
def thawed(net):
    net.head.requires_grad_(False)
    return lambda ddp: net.head.requires_grad_(True), lambda: net.head.weight, lambda m, x: mean_square(m(x))


MODES = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
}


def look(name, mode):
    """Whether wrapping makes the parameter equal, and what becomes of its gradient in three steps."""
    kind, function = PLACES[name]
    torch.manual_seed(rank)
    net = kind()
    afterwards, parameter, loss = function(net)
    ddp = DistributedDataParallel(net, **MODES[mode])
    afterwards(ddp)
    equal, steps = apart_by(parameter()) == 0, []
    for step in range(3):
        x = batch(step)
        try:
            off = off_by([parameter()], partial(loss, ddp, x), partial(loss, net, x))
        except RuntimeError as error:
            return equal, [*steps, str(error).partition(". ")[0].partition(", e.g.")[0]]
        steps.append("mean" if off < 0.1 else "local")
        ddp.zero_grad()
    return equal, steps


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # find_unused_parameters searches in vain in most places
    found = {(name, mode): look(name, mode) for name in PLACES for mode in MODES}

# %% claims={"32": "incomplete"}
found = out["found"][0]
names, modes = (list(dict.fromkeys(keys)) for keys in zip(*found, strict=True))
errors = sorted({steps[-1] for _, steps in found.values()} - {"mean", "local"})


def words(steps):
    """Three steps in a few words."""
    kinds = [f"raises [{errors.index(step) + 1}]" if step in errors else step for step in steps]
    return ", ".join(dict.fromkeys(kinds))


print(f"{'':38}{'equal':8}" + "".join(f"{mode:24}" for mode in modes).rstrip())
for name in names:
    equal = {True: "yes", False: "no"}[found[name, "default"][0]]
    cells = "".join(f"{words(found[name, mode][1]):24}" for mode in modes).rstrip()
    print(f"{name:38}{equal:8}{cells}")
for number, error in enumerate(errors, 1):
    print(f"[{number}] {error}")

# %%
import matplotlib.pyplot as plt

LOOKS = {
    "mean": ("white", ""),
    "local": ("#D55E00", "xx"),
    "raises": ("#56B4E9", ".."),
    "no": ("#D55E00", "xx"),
    "yes": ("white", ""),
}
_, axes = plt.subplots(figsize=(7.4, 4), layout="constrained")
for y, name in enumerate(names):
    row = [{True: "yes", False: "no"}[found[name, "default"][0]]] + [
        words(found[name, mode][1]) for mode in modes
    ]
    for x, text in enumerate(row):
        worst = next((kind for kind in ("local", "raises", "no") if kind in text), text)
        colour, hatch = LOOKS[worst]
        box = plt.Rectangle(
            (x - 0.5, y - 0.5), 1, 1, facecolor=colour, hatch=hatch, edgecolor="#666666", lw=0.5, alpha=0.6
        )
        axes.add_patch(box)
        label = axes.text(x, y, text.partition(" [")[0], ha="center", va="center", fontsize=8)
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.9})
axes.axvline(0.5, color="black", lw=1.5)
axes.set(xlim=(-0.5, len(modes) + 0.5), ylim=(len(names) - 0.5, -0.5))
axes.set_xticks(
    range(len(modes) + 1), ["equal when\nwrapped?", *(f"gradient,\n{mode}" for mode in modes)], fontsize=8
)
axes.set_yticks(range(len(names)), names, fontsize=8)
axes.tick_params(length=0)
axes.xaxis.tick_top()
axes.set_title("Local: what the module did not list when it was wrapped, or listed as frozen", fontsize=10)
plt.show()

# %% [markdown]
# (The warning is `find_unused_parameters` searching in vain.) You will read that shared parameters and unusual
# structures are a problem for DDP. Read the rows:
#
# - **Sharing is no problem.** `_build_params_for_reducer` (`torch/nn/parallel/distributed.py`) lists each parameter
#   once, however many layers have it, and its hook fires once, after autograd has added up all its uses. It does not
#   matter where those are: even a head that stands outside is averaged, if its weight is tied to one inside.
# - **A use outside of forward is no problem, either**, in the default mode. But `find_unused_parameters` looks from
#   forward's output, finds no use, declares the parameter ready, and then its gradient comes: “ready only once”.
# - **What is outside is not equal to begin with**, and never averaged: the head beside a wrapped backbone, say. A
#   plain Python list hides layers from `parameters()`, so from DDP and also from your optimizer: they are not trained
#   at all, and each rank keeps its own. (`nn.ModuleList` is for that.)
# - **A copy is another model.** DDP averages the gradients of what it was given. If that is a `copy.deepcopy`, the original never
#   gets a gradient, and stays as it was.
# - **Parameters are listed once**, in the constructor, without those that are frozen then. What you add later, thaw later or
#   put in another's place later is in `ddp.parameters()`, an optimizer made then trains it, `state_dict` has it. DDP
#   does not know of it. And for what you *freeze* later, it waits (lesson 08). Buffers are listed anew each time they are
#   sent (`_assign_modules_buffers`): a new one counts, if the model had any when it was wrapped.
#
# The row to remember is the last but one, because its message misleads. You load a model, wrap it, *then* put in a
# new head for your ten classes. DDP still waits for the old head's gradient, says that a parameter was not used and
# proposes `find_unused_parameters=True`. You follow the advice, the error is gone, and the new head is trained on
# every rank alone. Ask the doctor:

# %%
# %%ranks --watch
torch.manual_seed(0)
net = Net()
ddp = DistributedDataParallel(net, find_unused_parameters=True)
net.head = nn.Linear(4, 10)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    mean_square(ddp(batch(step))).backward()
    optimizer.step()

# %% [markdown]
# The list is `_module_parameters` (a private name, so it may change). Compare it with what is trained:

# %%
# %%ranks
known = {id(parameter) for parameter in ddp._module_parameters}
trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
[name for name, parameter in net.named_parameters() if id(parameter) in trained - known]

# %% [markdown]
# Build the whole model, freeze what is to be frozen, then wrap. When one of these changes, drop the wrapper and wrap
# anew. The new one begins as the first did: it compares shapes and sends the weights (lesson 09).
#
# ## The same model on every rank?
#
# When it is wrapped, rank 0's weights go to all. To *which* parameters? Here rank 1 makes its two layers in the
# other order. Such a thing comes from a loop over a `set` of names, whose order can be another in each process, or
# from a dictionary that is filled by what comes first. The names are equal on both ranks, and so are the shapes.

# %%
p = predict("07.other_order")


# %%
# %%ranks --predicted --as out
class Branches(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        for name, (inputs, outputs) in sizes.items():
            setattr(self, name, nn.Linear(inputs, outputs, bias=False))

    def forward(self, x):
        return self.right(self.left(x).tanh())


def reordered(sizes):
    return dict(reversed(sizes.items())) if rank == 1 else sizes


torch.manual_seed(0)
lefts = nn.Linear(4, 4, bias=False).weight.detach()
torch.manual_seed(rank)
net = Branches(reordered({"left": (4, 4), "right": (4, 4)}))
before = {name: getattr(net, name).weight.tolist() for name in ("left", "right")}
ddp = DistributedDataParallel(net)
after = {name: getattr(net, name).weight.tolist() for name in ("left", "right")}
where = next(name for name, weight in after.items() if weight == lefts.tolist())
print("rank 0's left is in", where)
compare(ddp)

# %%
_, axes = plt.subplots(2, 4, figsize=(7, 3.4), layout="constrained")
for r in (0, 1):
    for column, (when, name) in enumerate((w, n) for w in ("before", "after") for n in ("left", "right")):
        each = axes[r][column]
        each.imshow(out[when][r][name], cmap="gray", vmin=-0.5, vmax=0.5)
        each.set(xticks=[], yticks=[], xlabel=f"{name}, {when}")
    axes[r][0].set_ylabel(f"rank {r}")
plt.suptitle("Wrapping has put rank 0's left into rank 1's right", fontsize=10)
plt.show()

# %% [markdown]
# By order. `_sync_module_states` (`torch/distributed/utils.py`) broadcasts a plain list of tensors; names are not
# sent. So rank 1 computes `left(right(x))` with rank 0's weights, where rank 0 computes `right(left(x))`, and from
# then on the gradient of one rank's `left` is averaged with that of the other's `right`. How wrong is that, and who
# would tell you?

# %% claims={"32": "incomplete"}
# %%ranks
own = dict(
    zip(
        ["left", "right"],
        torch.autograd.grad(mean_square(net(batch(0))), [net.left.weight, net.right.weight]),
        strict=True,
    )
)
mean_square(ddp(batch(0))).backward()
for name, right in own.items():
    dist.all_reduce(right, dist.ReduceOp.AVG)  # left with left
    got = getattr(net, name).weight.grad
    print(f"{name}: off by more than half:", ((got - right).norm() / right.norm()).item() > 0.5)
print("answers to the same input differ by more than 0.1:", apart_by(net(torch.ones(1, 4))) > 0.1)

# %%
# %%ranks --watch
torch.manual_seed(rank)
ddp = DistributedDataParallel(Branches(reordered({"left": (4, 4), "right": (4, 4)})))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    mean_square(ddp(batch(step))).backward()
    optimizer.step()

# %% [markdown]
# DDP says nothing: it compares how many parameters there are and of what shape, before it sends
# (`verify_params_across_processes`, `torch/csrc/distributed/c10d/reducer.cpp`). So with *other* shapes the same
# mistake is an error, and with another number of layers, too:

# %%
# %%ranks 2 --fresh --expect raises:RuntimeError
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world_size = dist.get_rank(), dist.get_world_size()
layers = [nn.Linear(4, 6), nn.Linear(6, 4)]
DistributedDataParallel(nn.Sequential(*(layers if rank == 0 else reversed(layers))))

# %%
# %%ranks --expect raises:RuntimeError
DistributedDataParallel(nn.Sequential(*[nn.Linear(4, 4) for _ in range(2 + rank)]))

# %% [markdown]
# Of the first, only rank 1 knows: rank 0 has sent its shapes, goes on to the broadcast and waits. In a script rank 1
# ends, and rank 0's log has a closed connection (lesson 00), so look into the logs of the others.
#
# > **On GPUs (NCCL).** Rank 0's broadcast is only enqueued: the constructor returns, and rank 0 waits at a later line, the next
# > that needs a number from its GPU. (Read in `reducer.cpp` and `ProcessGroupNCCL.cpp`, not run here.)
#
# Better not to depend on luck with shapes. A few lines find all of it before you wrap:

# %%
# %%ranks


def signature(net):
    return [(name, tuple(p.shape), p.requires_grad) for name, p in net.named_parameters()]


def same_everywhere(net):
    everyones = [None] * world_size
    dist.all_gather_object(everyones, signature(net))
    return all(other == everyones[0] for other in everyones)


names = ["left", "right"] if rank == 0 else ["right", "left"]
print("two orders:", same_everywhere(nn.ModuleDict({name: nn.Linear(4, 4) for name in names})))
print("sorted:", same_everywhere(nn.ModuleDict({name: nn.Linear(4, 4) for name in sorted(names)})))

# %% [markdown]
# ## Names get longer
#
# DDP is a module with one submodule, `module`. Each wrapper puts its own name before all others, and a checkpoint
# keeps them.

# %%
p = predict("07.strict_false")


# %%
# %%ranks --predicted --as out
class Outer(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

net = Outer(nn.Linear(4, 4))
state = DistributedDataParallel(net).state_dict()
missing, unexpected = Outer(nn.Linear(4, 4)).load_state_dict(state, strict=False)
loaded = len(state) - len(unexpected)
print("in the checkpoint:", list(state))
consume_prefix_in_state_dict_if_present(state, "module.")
print("prefix taken off: ", list(state))

net.net = DistributedDataParallel(net.net)  # only a part is wrapped
state = net.state_dict()
consume_prefix_in_state_dict_if_present(state, "module.")
print("part wrapped:     ", list(state))

# %% [markdown]
# Nothing, and `strict=False` keeps quiet about it. `consume_prefix_in_state_dict_if_present`
# (`torch/nn/modules/utils.py`) takes the prefix off the beginning of a name and does not see the one in the middle.
# Save the `state_dict()` of the module that you wrapped, not of the wrapper, and there is no prefix. DDP does not
# copy your module, so the `net` that you wrapped *is* the trained one.
#
# ## A teacher
#
# Distillation, self-distillation, momentum encoders: a student learns from a teacher that gets no gradient. Where
# does the teacher live? Five ways, three steps each. It has a BatchNorm and is to stay in eval mode.
#
# In the first two the teacher is part of the wrapped module, which computes the loss. In the other three it is called
# outside, and its output is all that the loss sees of it.


# %%
# %%ranks
class Distil(nn.Module):
    """Student and teacher in one module; the output is the loss."""

    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        return (self.student(x) - target).square().mean()


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))


def in_module(student, teacher):
    return DistributedDataParallel(Distil(student, teacher)), teacher


def in_module_frozen(student, teacher):
    return DistributedDataParallel(Distil(student, teacher.requires_grad_(False))), teacher


def own_ddp(student, teacher):
    return DistributedDataParallel(student), DistributedDataParallel(teacher.requires_grad_(False))


def copied_ddp(student, teacher):
    ddp = DistributedDataParallel(student)
    return ddp, copy.deepcopy(ddp).eval()


def beside(student, teacher):
    return DistributedDataParallel(student), teacher.requires_grad_(False)


def loss_of(model, teacher, x):
    if isinstance(model.module, Distil):
        return model(x)
    with torch.no_grad():
        target = teacher(x)
    return (model(x) - target).square().mean()


for hold in (in_module, in_module_frozen, own_ddp, copied_ddp, beside):
    try:
        model, teacher = hold(build(), build().eval())
        model.train()
        for _ in range(3):
            loss_of(model, teacher, torch.randn(8, 4)).backward()
        teaches = "in train mode" if teacher.training else "in eval mode"
        said = f"runs, teacher {teaches}, {len(model.modules_buffers)} buffers to keep equal"
        said += f", {len(model.state_dict())} tensors in the checkpoint"
    except RuntimeError as error:
        said = str(error).partition(" in the prior")[0].partition(" when")[0]
    if rank == 0:
        print(f"{hold.__name__:18}{said}")

# %% [markdown]
# - **In the module, as it is**: its parameters want gradients, so DDP counts them, and none comes.
# - **In the module, frozen**: runs, and wrapping makes it equal on all ranks. But it is a submodule now, and
#   `model.train()` puts *it* into train mode, too: its BatchNorm goes on learning, its dropout drops. Its buffers
#   also go along whenever buffers are sent (lesson 09). Call `teacher.eval()` after every `train()`, or override `train()`
#   so that it does.
# - **In a DDP of its own**: refused. There is nothing to average.
# - **A copy of the whole DDP module**: runs; you now have a second wrapper with hooks and buckets of its own
#   (`__setstate__` makes them), whose forward may send buffers (lesson 09).
# - **Beside**: an ordinary object that belongs to no module, and the one to take. It is out of DDP, `train()` and
#   `parameters()`, and also out of `to(device)` and `state_dict`: move it and save it yourself. (Where `forward` computes
#   the loss, hand the target in: `ddp(x, target)`.)
#
# Wherever the teacher is, freeze it or compute its outputs under `no_grad`. Otherwise its parameters get gradients, which cost
# memory and time, and which somebody may hand to an optimizer one day.
#
# ### A teacher that follows
#
# A momentum teacher starts as a copy of the student and follows it: `teacher = m * teacher + (1 - m) * student` after
# each step. No collective is needed: the student is the same on all ranks, so the teacher is. If it *starts* the
# same. Everybody copies it at some line. Which?

# %%
p = predict("07.teacher")


# %%
# %%ranks --predicted --as out
def apart_by(tensors):
    """The largest difference between ranks."""
    low = torch.cat([tensor.detach().flatten() for tensor in tensors])
    high = low.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return (high - low).max().item()


def follow(momentum, copied):
    """40 steps; how far apart the ranks' teachers are after each."""
    torch.manual_seed(rank)
    net = nn.Linear(4, 4)
    teacher = copy.deepcopy(net)
    ddp = DistributedDataParallel(net)
    if copied == "after":
        teacher = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    path = [apart_by(teacher.parameters())]
    for _ in range(40):
        x, y = torch.randn(8, 4), torch.randn(8, 4)
        with torch.no_grad():
            target = teacher(x)
        student = ddp(x)
        optimizer.zero_grad()
        ((student - y).square().mean() + (student - target).square().mean()).backward()
        optimizer.step()
        for mine, its in zip(teacher.parameters(), net.parameters(), strict=True):
            with torch.no_grad():
                mine.lerp_(its, 1 - momentum)
        path.append(apart_by(teacher.parameters()))
    assert apart_by(net.parameters()) == 0  # the students are equal all the time
    return path


paths = {f"before, m = {m}": follow(m, "before") for m in (0.9, 0.99, 0.999)}
paths["after, m = 0.99"] = follow(0.99, "after")
kept = paths["before, m = 0.99"][-1] / paths["before, m = 0.99"][0]
for name, path in paths.items():
    print(
        f"copied {name:20}{100 * path[-1] / paths['before, m = 0.9'][0]:5.1f} % of the first difference is left"
    )

# %%
paths = out["paths"][0]
_, axes = plt.subplots(figsize=(7, 3), layout="constrained")
looks = [("#D55E00", "o-"), ("#E69F00", "s--"), ("#0072B2", "^-."), ("black", "x-")]
for (name, path), (colour, style) in zip(paths.items(), looks, strict=True):
    axes.plot(path, style, color=colour, markevery=5, markersize=5, label=f"copied {name}")
axes.set(
    title="Copied before wrapping: the nearer m is to 1, the longer teachers stay apart",
    xlabel="training step",
    ylabel="largest difference between\ntwo ranks' teachers",
)
axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# What is left after `t` steps is `m ** t` of it, and `m` is usually near 1 (0.999 in MoCo, below). Meanwhile all
# students are equal (the `assert`): each rank's loss asks for something else, and DDP averages it. No comparison of
# *models* shows it; compare the teacher as well. Copy after wrapping: `copy.deepcopy(ddp.module)`.
#
# A loop over `parameters()` leaves buffers behind: the teacher's BatchNorm keeps the statistics it was copied with.
# `torch.optim.swa_utils.AveragedModel`, with `multi_avg_fn=get_ema_multi_avg_fn(0.99)`, is such a teacher ready-made, and
# copies the student's buffers. But after a step these are not equal on all ranks (lesson 09): broadcast rank 0's.
#
# ## What goes wrong in real life
#
# - **“'DistributedDataParallel' object has no attribute ...”** Somebody writes `.module`, and it runs. If a gradient
#   comes out of that line, go through a door instead.
# - **Ranks that drift apart in one part of the model.** A head, a loss with parameters, a layer added below the line
#   with DDP. Hold the photograph beside the optimizer, as above.
# - **The flag that silenced the error.** You put in `find_unused_parameters=True` because of a new head, and it has
#   trained alone ever since.
# - **A checkpoint that loads nothing.** `strict=False`, and a `module.` too many. Look at what `load_state_dict`
#   returns.
# - **Rank 3 says “appears not to match sizes”, rank 0 “connection closed”.** The models are not the same:
#   vocabularies, classes or files counted on each rank's own data, or a loop over a `set`.
#
# Ask the doctor about the last kind where no shape helps (on the command line: `ddp-course doctor towers.py`):

# %%
import tempfile
from pathlib import Path

from course_lib.scripts.examine import examine, verdict_text

TOWERS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
arrived = ["text", "image"] if dist.get_rank() else ["image", "text"]  # whatever this rank has read first
model = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in arrived})
model.forward = lambda x: model["text"](model["image"](x).tanh())
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    ddp(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "towers.py"
    script.write_text(TOWERS)
    print(verdict_text(examine(str(script), ranks=2)))

# %% [markdown]
# ## Rule of thumb
#
# > One module, complete before it is wrapped, the same on every rank, with everything in it that is trained in every
# > step, loss included. Every gradient comes out of `ddp(...)`. Teachers, logs and evaluations stay outside.
#
# ## Your turn
#
# Three tasks wait in [exercises/07_wrappers](../exercises/07_wrappers.ipynb): a wrapper for any number of inputs, an
# autoencoder whose `encode` and `decode` are averaged, and a student with a momentum teacher.
#
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `__init__`, `_build_params_for_reducer` and `forward`.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation), section on the internal design.
# - He et al., *Momentum Contrast for Unsupervised Visual Representation Learning*, CVPR 2020: a momentum encoder,
#   trained on several GPUs.
#
# **Next:** [lesson 08](08_unused.ipynb), *Unused parameters and changing graphs*. Or back to the [index](index.ipynb).
