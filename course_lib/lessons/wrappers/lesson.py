# %% [markdown]
# # 07 · Wrapper modules
#
# > *“My model has an `encode` and a `decode`, takes two inputs and brings its own loss. DDP has one `forward`. I call
# > `model.module.encode(x)` now, and it trains. Is that all right?”*
#
# DDP wraps *one* module and knows *one* `forward`. This lesson is about what goes through that forward, what goes around it, and
# which parameters DDP looks after.
#
# **You will be able to** call other methods without losing the average; put several models, inputs and a loss into one
# `forward`, and say when that is needed; say of any parameter whether DDP looks after it. 45 minutes.
#
# **Before this:** lessons 00 and 04; lesson 06 helps.

# %%
# %load_ext course_lib

# %% [markdown] tags=["two-hours-6"]
# ## A method that is not `forward`
#
# Ask two ranks. `Auto` has two methods with one weight each, and both weights are 1. The sample is 1 on rank 0 and 3 on
# rank 1, and so is the gradient of each weight. (`Auto` and `grads`, which lists `.grad` of each parameter, are in
# `course_lib/lessons/wrappers/places.py`.) DDP has no `encode`; the wrapped module has, and DDP keeps it as `ddp.module`.

# %% tags=["two-hours-6"]
p = predict("07.around")

# %% tags=["two-hours-6"]
# %%ranks 2 --predicted
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.lessons.wrappers.places import Auto, grads

x = torch.tensor([[(1.0, 3.0)[dist.get_rank()]]])
ddp = DistributedDataParallel(Auto())
ddp.module.decode(ddp.module.encode(x)).sum().backward()
grads(ddp)

# %% [markdown] tags=["two-hours-6"]
# No error, and no average: each rank keeps its own gradients. Train like this for three steps. `--watch` lets the course's
# doctor look on:

# %% tags=["two-hours-6"]
# %%ranks --watch
ddp = DistributedDataParallel(Auto())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    (ddp.module.decode(ddp.module.encode(x)) - x - 1).square().sum().backward()
    optimizer.step()

# %% [markdown]
# Two models instead of one. `DistributedDataParallel.forward` (`torch/nn/parallel/distributed.py`) is three calls:

# %%
from course_lib.lessons.wrappers.lab import boundary

boundary()

# %% [markdown]
# The solid arrow is `ddp(x)`. `_post_forward` arms the reducer, and the next backward averages (lesson 06). The dashed
# arrow is a call through `.module`. It uses the same weights, and the same hooks fire in its backward. But nothing has armed
# them, so they do nothing.
#
# > **On GPUs.** The boundary is the same: it is Python above the backend. One thing more happens in it: with
# > `device_ids=[...]`, `_pre_forward` moves the inputs to that GPU. A call around the wrapper does not, and inputs that are
# > still on the CPU raise there. (Read in `_pre_forward`, not run: for a module on the CPU, DDP refuses `device_ids`.)
#
# When is `.module` right? Where no gradient is wanted: evaluation, on one rank even (lesson 06), sampling, `state_dict`.
#
# ## Doors for other methods
#
# Every call that trains has to go through `forward`. So write a `forward` that takes the method's name: a small module around
# the model, and DDP around both.


# %%
# %%ranks
class Doors(torch.nn.Module):
    """Calls any method of net from forward: ddp("encode", x)."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, *args, **kwargs):
        return getattr(self.net, method)(*args, **kwargs)


net = Auto()
ddp = DistributedDataParallel(Doors(net))
ddp("decode", ddp("encode", x)).sum().backward()
grads(ddp)

# %% [markdown]
# Averaged. Two doors in one step are two forwards, and one backward (lesson 06).
#
# What about a step that goes through one door alone? It leaves the decoder without a gradient, and DDP waits for one.
# `find_unused_parameters=True` is a way out (lesson 08 has more), but then two doors *side by side* are a problem. Three steps,
# without and with the flag:


# %%
# %%ranks
from course_lib.lab.patterns import MODES

steps = {
    "one door": lambda ddp: ddp("encode", x),
    "chained": lambda ddp: ddp("decode", ddp("encode", x)),
    "side by side": lambda ddp: ddp("encode", x) + ddp("decode", x),
}
for mode in ("default", "find_unused_parameters"):
    for name, step in steps.items():
        ddp = DistributedDataParallel(Doors(Auto()), **MODES[mode])
        try:
            step(ddp).sum().backward()
            print(f"{mode:24}{name:14}{grads(ddp)}")
            ddp("encode", x)  # the next step's forward
        except RuntimeError as error:
            print(f"{mode:24}{name:14}{str(error).partition('.')[0]}")

# %% [markdown]
# - **One door, no flag:** nothing is averaged. The sheet of lesson 06 is not full, and the next forward raises.
# - **One door, with the flag:** the encoder is averaged, and the decoder, which nobody used, keeps `None`.
# - **Side by side, with the flag:** an error. After each forward, DDP searches the graph behind *that* forward's output. The
#   second one has used the decoder alone, so DDP declares the encoder unused, and then its gradient comes.
#
# So with the flag, one door has to lead into the other. (`static_graph=True` wants steps that all use the same parameters:
# lesson 08.) Doors side by side, in steps that use one or both, are a task of
# [exercises/07_wrappers](../exercises/07_wrappers.ipynb).
#
# ## A term beside a real forward
#
# Now a loss of two terms. One goes through the wrapper, and one, a penalty on the code, goes around it.

# %%
p = predict("07.second_term")

# %%
# %%ranks --predicted
net = Auto()
ddp = DistributedDataParallel(Doors(net))
reconstruction = ddp("decode", ddp("encode", x)).sum()
penalty = 10 * net.encode(x).sum()
(reconstruction + penalty).backward()
grads(ddp)

# %% [markdown]
# DDP does not follow what you compute. It hangs a hook on every *parameter*. Autograd adds up all terms before a
# parameter's hook fires, and one forward through the wrapper has armed the hooks. So a weight decay of your own, or an
# auxiliary loss on `ddp.module.something`, *beside* a real forward, is right. (With `find_unused_parameters`, the forward has to
# use these parameters as well: otherwise they are declared unused, and their gradient raises.)
#
# ## The wrapper from the forum
#
# Two models: `B` makes a feature of an image, and `A` a score of two features. `B` is called twice before one backward. The
# advice of a forum was a wrapper that holds the *inner* model alone and takes both images in a list; `A` keeps a DDP of its own,
# and gets the pair. `Posted` is that class as it was posted, with two slips. `Pair` is repaired, and `Both` holds `A` as well:


# %%
# %%ranks
class Posted(torch.nn.Module):
    def __init__(self, inner):
        self.inner = inner

    def forward(inputs):
        return self.inner(inputs[0]), self.inner(inputs[1])


class Pair(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        return self.inner(inputs[0]), self.inner(inputs[1])


class Both(torch.nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x, y):
        return self.a(self.b(x), self.b(y))


# %% [markdown]
# `nn.Module` keeps submodules in a dictionary that its own `__init__` makes, so that call comes first; and `forward` needs its
# `self` ([what `Posted` raises](#Deeper:-what-the-forum's-class-raises)). DDP hands on all arguments (for any number of inputs,
# write `forward(self, *inputs)`), and returns what your `forward` returns. An output that is detached, or made under `no_grad`,
# trains nothing that lies before it.
#
# When is a class needed at all? The simplest way is a DDP around each model. The next cell tries three ways in twelve kinds of
# step: three modes, `B` with and without a BatchNorm, and both calls of `B` on the same path through it or on different ones.
# `three_steps` compares each step's gradients with the mean over the ranks.

# %%
p = predict("07.wrapper")

# %% claims={"6": "refined"}
# %%ranks --predicted --as out
from functools import partial
from itertools import product

from course_lib.lessons.wrappers.places import three_steps


def two_ddp(a, b, ddp):
    a, b = ddp(a), ddp(b)
    return lambda x, y: a(b(x), b(y))


def the_forums(a, b, ddp):
    a, b = ddp(a), ddp(Pair(b))
    return lambda x, y: a(*b([x, y]))


def one_wrapper(a, b, ddp):
    return ddp(Both(a, b))


found = {}
for mode, norm, different in product(MODES, (False, True), (False, True)):
    ddp = partial(DistributedDataParallel, **MODES[mode])
    ends = found[mode, norm, different] = {}
    for wrap in (two_ddp, the_forums, one_wrapper):
        ends[wrap.__name__] = three_steps(wrap, ddp, norm, different)

# %%
from course_lib.lessons.wrappers.lab import draw_ways

draw_ways(out["found"][0])

# %% [markdown]
# The errors are “ready only once” again, from the search after the *second* forward. Inside a wrapper there is one forward,
# so one search, which meets both paths. Where two DDP models are right as well, take what is easier to read.
#
# With a wrapper, buffers are sent once in a step, not once for each call of `B`
# ([below](#Deeper:-one-wrapper,-or-one-for-each-model)). What *takes turns*, such as a generator and a discriminator, gets
# a DDP each: a wrapper around both waits for the one whose turn it is not.
#
# ## The loss inside
#
# Losses have parameters sometimes: a temperature, class centres, weights between tasks. This one has a factor, which is 1.


# %%
# %%ranks
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))

    def forward(self, y):
        return (self.factor * y).sum()


class WithLoss(torch.nn.Module):
    def __init__(self, net, criterion):
        super().__init__()
        self.net, self.criterion = net, criterion

    def forward(self, x):
        return self.criterion(self.net(x))


# %%
p = predict("07.temperature")

# %%
# %%ranks --predicted
from course_lib.lessons.wrappers.places import one

ddp, criterion = DistributedDataParallel(one()), Scaled()
criterion(ddp(x)).backward()
grads(ddp) + grads(criterion)

# %% [markdown]
# The model is averaged, the factor is not, and no message says so. Into the wrapper with it, so that `forward` returns the
# loss:

# %%
# %%ranks
ddp = DistributedDataParallel(WithLoss(one(), Scaled()))
ddp(x).backward()
grads(ddp)

# %% [markdown]
# Now `ddp.parameters()` is all that is trained, so the optimizer misses nothing. What `forward` returns besides, for the log, is
# better detached: DDP does not mind, but its graph stays in memory as long as it does. The *value* of the loss stays each rank's
# own. And where a sample's loss depends on other samples, as in CLIP, this is not enough ([below](#Deeper:-a-loss-in-which-samples-meet)).
#
# ## Who is looked after
#
# Now the question behind all of these: which parameters does DDP look after? Choose where a parameter lives. Each choice is
# a run of three steps on two real ranks. The weight is 1 on rank 0 and 2 on rank 1 before wrapping.

# %% tags=["nbval-ignore-output"]
from course_lib.lessons.wrappers.lab import explore_places

explore_places()

# %% [markdown]
# All ten places with all three modes, run at once:

# %% claims={"32": "incomplete"}
from course_lib.lessons.wrappers.lab import run_places

run_places()

# %% [markdown]
# You will read that shared parameters and unusual structures are a problem for DDP.
#
# - **Sharing is no problem.** `_build_params_for_reducer` lists each parameter once, however many layers have it. Its hook
#   fires once, after autograd has added up all uses, wherever those are.
# - **A use outside of forward is no problem, either**, unless `find_unused_parameters` declares the parameter unused.
# - **What is outside is not equal to begin with, and never averaged.** A plain Python list hides layers from
#   `parameters()`, so from DDP and from your optimizer (`nn.ModuleList` is for that).
# - **A copy is another model.** If a `copy.deepcopy` is wrapped, the original never gets a gradient.
# - **Parameters are listed once, when the module is wrapped**, without those that are frozen then. What you add, thaw or
#   replace later is in `ddp.parameters()` and in an optimizer made then. DDP does not know of it.
#
# (Buffers are another list, which DDP makes anew each time it sends them: [below](#Deeper:-buffers-are-another-list).)
#
# The row to remember is the last but one. You load a model, wrap it, *then* put in a new head for your ten classes:

# %%
# %%ranks --watch --expect raises:RuntimeError
net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Linear(4, 1000))
ddp = DistributedDataParallel(net)
net[1] = torch.nn.Linear(4, 10)
for _ in range(2):
    ddp(x).square().mean().backward()

# %% [markdown]
# The message proposes `find_unused_parameters=True`. Follow it, and the error is gone. The new
# head is then trained on every rank alone. The doctor says what DDP cannot: it waits for a head that is no longer there.
#
# Build the whole model, freeze what is to be frozen, then wrap. When one of these changes, wrap anew on every rank.
#
# ## What goes wrong in real life
#
# - **“'DistributedDataParallel' object has no attribute ...”** Somebody writes `.module`, and it runs. If a gradient
#   comes out of that line, go through a door instead.
# - **Ranks that drift apart in one part of the model.** A head, a loss with parameters, a layer added below the line
#   with DDP.
# - **The flag that silenced the error.** `find_unused_parameters=True` because of a new head, which has trained alone since.
# - **Rank 3 says “appears not to match sizes”, rank 0 “connection closed” (gloo).** The models are not the same on all ranks
#   ([below](#Deeper:-the-same-model-on-every-rank%3F)).
#
# ## Rule of thumb
#
# > One module, complete before it is wrapped, the same on every rank, with everything in it that is trained in every
# > step, loss included. Every step goes through `ddp(...)`; a term beside it may train what that forward has used.
# > Teachers, logs and evaluations stay outside.
#
# ## Your turn
#
# Four tasks wait in [exercises/07_wrappers](../exercises/07_wrappers.ipynb): a wrapper for any number of inputs, an
# autoencoder whose `encode` and `decode` are averaged, chained or side by side, a student with a BatchNorm and a momentum
# teacher (read [Deeper: a teacher](#Deeper:-a-teacher) first), and a contrastive loss over ranks of which some have more samples
# (read [Deeper: a loss in which samples meet](#Deeper:-a-loss-in-which-samples-meet) first).
#
# **Your script.** One of the faults in `exercises/script/train.py` is this lesson's ([lesson 00](00_first_ranks.ipynb#A-script-of-your-own)
# has handed it out). Repair it; in a terminal, this says whether it is gone:
#
#     ddp-course check --suspect 07 exercises/script/train.py
#
# ## Deeper: one wrapper, or one for each model
#
# What is sent in three steps, with one wrapper around `A` and `B` and with a DDP for each? `B` has a BatchNorm.

# %%
# %%ranks --as out
from course_lib.lab.patterns import batch
from course_lib.lessons.wrappers.places import A, B, apart_by

images = [batch(0), batch(1)]
wrapped = DistributedDataParallel(Both(A(), B(buffers=True)))
for _ in range(3):
    wrapped(*images).mean().backward()
dist.barrier()
a, b = DistributedDataParallel(A()), DistributedDataParallel(B(buffers=True))
for _ in range(3):
    a(b(images[0]), b(images[1])).mean().backward()

# %%
from course_lib.lessons.wrappers.lab import count_stages

for name, counted in zip(("one wrapper", "two DDP"), count_stages(out.collectives[0]), strict=True):
    print(f"{name:12}", counted)

# %% [markdown]
# A forward that begins with buffers sends two messages here, one for each type: the running statistics, and the integer that
# counts batches. With two DDP models each call of `B` is a forward; inside a wrapper there is one. A bucket never holds
# gradients of two wrappers: so there are two all-reduces in each step instead of one. With large models, which fill many
# buckets, that hardly matters.
#
# ## Deeper: what the forum's class raises
#
# As posted, and with the first slip repaired:


# %%
# %%ranks
class InitFirst(Posted):
    def __init__(self, inner):
        torch.nn.Module.__init__(self)
        self.inner = inner


for kind in (Posted, InitFirst):
    try:
        DistributedDataParallel(kind(B()))(images)
    except (AttributeError, TypeError) as error:
        print(f"{kind.__name__}: {type(error).__name__}: {error}")

# %% [markdown]
# ## Deeper: buffers are another list
#
# Parameters are listed when the module is wrapped; buffers are listed anew each time they are sent
# (`_assign_modules_buffers`). Two models get a buffer after they have been wrapped. It holds the rank, and in a second
# forward DDP may send rank 0's. One of the models had a buffer before:


# %%
# %%ranks
for had_one in (True, False):
    net = one()
    if had_one:
        net.register_buffer("old", torch.zeros(1))
    ddp = DistributedDataParallel(net)
    net.register_buffer("new", torch.full((1,), float(dist.get_rank())))
    for _ in range(2):
        ddp(x).sum().backward()
    print(f"had one: {had_one}; the new one holds", net.new.item())

# %% [markdown]
# On rank 1 the new buffer becomes 0 if the model had one when it was wrapped, and stays 1 if not:
# `will_sync_module_buffers` asks whether the list has anything in it, and the list of the second model was empty.
#
# ## Deeper: a loss in which samples meet
#
# In the lesson's losses each sample has a loss of its own. A *contrastive* loss (CLIP, SimCLR) is of another kind: what a
# sample costs depends on all others in its batch, and a rank knows its own part only. To put such a loss into the wrapper is
# not enough:


# %%
# %%ranks
def everyones(x):
    """The samples of all ranks, in one batch."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


class FromAll(torch.autograd.Function):
    """The samples of all ranks; backward adds up what every rank's loss asks of them."""

    @staticmethod
    def forward(ctx, x):
        return everyones(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


class Contrast(torch.nn.Module):
    """Two views of a sample are to be more alike than two samples; how sharply is learned."""

    def __init__(self, collect):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Linear(6, 6)
        self.temperature = torch.nn.Parameter(torch.tensor(0.5))
        self.collect = collect

    def forward(self, x, noise):
        one, other = self.collect(self.encoder(x)), self.collect(self.encoder(x + 0.1 * noise))
        scores = one @ other.T / self.temperature
        return torch.nn.functional.cross_entropy(scores, torch.arange(len(one)))


def gradient(model, *inputs):
    model(*inputs).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %%
# %%ranks
views = [batch(0), batch(100)]
right = gradient(Contrast(torch.nn.Identity()), *map(everyones, views))
for name, collect in (("its own samples", torch.nn.Identity()), ("all samples", FromAll.apply)):
    got = gradient(DistributedDataParallel(Contrast(collect)), *views)
    print(f"each rank contrasts {name}: {(got - right).norm() / right.norm():.0%} off")

# %% [markdown]
# The ranks agree, and are far off the gradient of one process with the whole batch: DDP averages what the ranks' losses
# give, and those losses are other ones. So the *features* have to be collected, with a way back for gradients
# (`dist.all_gather` alone has none), and every rank computes the whole loss. The same is true of any layer in which
# samples meet: a BatchNorm is one (SyncBatchNorm: lesson 09).
#
# ## Deeper: a teacher
#
# Distillation, self-distillation, momentum encoders: a student learns from a teacher that gets no gradient. Where does the
# teacher live? Three answers, three steps each:


# %%
# %%ranks
class Distil(torch.nn.Module):
    """Student and teacher in one module; the output is the loss."""

    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        return (self.student(x) - target).square().mean()


def in_the_module():
    return DistributedDataParallel(Distil(one(), one(2.0)))


def in_its_own_ddp():
    teacher = one(2.0).requires_grad_(False)
    return Distil(DistributedDataParallel(one()), DistributedDataParallel(teacher))


def beside():
    return Distil(DistributedDataParallel(one()), one(2.0).requires_grad_(False))


for hold in (in_the_module, in_its_own_ddp, beside):
    try:
        model = hold()
        for _ in range(3):
            model(x).backward()
        print(f"{hold.__name__}: runs")
    except RuntimeError as error:
        print(f"{hold.__name__}: {str(error).partition(' in the prior')[0].partition(' when')[0]}")

# %% [markdown]
# - **In the wrapped module, as it is:** its parameters want gradients, so DDP counts them, and none comes. Frozen before it is
#   wrapped, it runs. But it is a submodule, so `model.train()` puts *it* into train mode, too, and its buffers are sent
#   along (lesson 09).
# - **In a DDP of its own:** refused, since there is nothing to average.
# - **Beside:** an ordinary object that DDP does not know, and the one to take. Move it to its device and save it yourself.
#
# Freeze the teacher, or compute its outputs under `no_grad`: gradients that nobody wants cost memory, and may be stepped one day.
#
# ## Deeper: a teacher that follows
#
# A momentum teacher starts as a copy of the student and follows it: `teacher = m * teacher + (1 - m) * student` after each
# step of the optimizer. No collective is needed, since the student is the same on all ranks; if the teacher *starts* the same.
# Here each rank draws weights of its own, 1 and 2, and copies the student before or after DDP makes the ranks equal:

# %%
# %%ranks
import copy

for when, m in (("before", 0.9), ("before", 0.99), ("before", 0.999), ("after", 0.99)):
    student = one(1.0 + dist.get_rank())
    teacher = copy.deepcopy(student)
    ddp = DistributedDataParallel(student)
    if when == "after":
        teacher = copy.deepcopy(student)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    for _ in range(40):
        with torch.no_grad():
            target = teacher(x)
        optimizer.zero_grad()
        (ddp(x) - target).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            teacher.weight.lerp_(student.weight, 1 - m)
    apart = [apart_by(each.parameters()) for each in (teacher, student)]
    print(f"copied {when} wrapping, m = {m}: ", end="")
    print(f"teachers differ by {apart[0]:.3f}, students by {apart[1]:.3f}")

# %% [markdown]
# Copied before, the teachers differ by 1 at first, and after `t` steps by `m ** t`; `m` is usually near 1 (0.999 in MoCo).
# All the time the students are equal: each rank's loss asks for something else, and DDP averages it. So no comparison of
# *models* shows the mistake. Copy after wrapping: `copy.deepcopy(ddp.module)`.
#
# `torch.optim.swa_utils.AveragedModel`, with `multi_avg_fn=get_ema_multi_avg_fn(0.99)`, is such a teacher ready-made. Its first
# `update_parameters` *copies*, whatever the momentum: call it once before the first step. The students here have weights only.
# If yours has a BatchNorm, are its buffers equal on all ranks after a step? (Lesson 09 asks that, and a task of this lesson.)
#
# ## Deeper: the same model on every rank?
#
# When it is wrapped, rank 0's weights go to all. To *which* parameters? Rank 1 registers its two layers in the other order.
# That comes from a loop over a `set` of names, or from a dictionary that is filled by what comes first. Names and shapes are
# the same on both ranks:

# %% claims={"32": "incomplete"}
# %%ranks
names = ["left", "right"] if dist.get_rank() == 0 else ["right", "left"]
weights = {"left": 1.0, "right": 5.0}
net = torch.nn.ModuleDict({name: one(weights[name]) for name in names})
ddp = DistributedDataParallel(net)
print("left holds", net["left"].weight.item(), "and right holds", net["right"].weight.item())

# %% [markdown]
# By order: on rank 1 `left` holds rank 0's `right`. `_sync_module_states` (`torch/distributed/utils.py`) broadcasts a list of
# tensors, and names are not sent. From then on the gradient of one rank's `left` is averaged with that of the other's
# `right`, and DDP says nothing. It compares how many parameters there are and of what shape
# (`verify_params_across_processes` in `reducer.cpp`), not of what type: with float32 on rank 0 and float64 on rank 1, rank 1
# reads rank 0's bits as other numbers. So with other shapes the same mistake is an error:

# %%
# %%ranks 2 --fresh --expect raises:RuntimeError
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

layers = [torch.nn.Linear(4, 6), torch.nn.Linear(6, 4)]
DistributedDataParallel(torch.nn.Sequential(*(layers if dist.get_rank() == 0 else reversed(layers))))

# %% [markdown]
# Only rank 1 knows of this: rank 0 has sent its shapes, goes on to the broadcast and waits. In a script rank 1 ends, and with
# gloo rank 0's log has a closed connection (lesson 00), so look into the logs of the others.
#
# > **On GPUs (NCCL).** Rank 0's broadcast is only enqueued: the constructor returns, and rank 0 waits at the next line that needs
# > a number from its GPU. (Read in `reducer.cpp` and `ProcessGroupNCCL.cpp`, not run: gloo's broadcast blocks.)
#
# Better not to depend on luck with shapes. A few lines find it before you wrap:


# %%
# %%ranks
def same_everywhere(net):
    signature = [(name, p.shape, p.dtype, p.requires_grad) for name, p in net.named_parameters()]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, signature)
    return all(other == everyones[0] for other in everyones)


names = ["left", "right"] if dist.get_rank() == 0 else ["right", "left"]
for what, order in {"two orders:": names, "sorted:": sorted(names)}.items():
    net = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in order})
    print(what, same_everywhere(net))

# %% [markdown]
# ## Further reading
#
# - `torch/nn/parallel/distributed.py`: `__init__`, `_build_params_for_reducer` and `forward`.
# - PyTorch, *Distributed Data Parallel* (design note in the documentation), section on the internal design.
# - He et al., *Momentum Contrast for Unsupervised Visual Representation Learning*, CVPR 2020: a momentum encoder,
#   trained on several GPUs.
#
# **Next:** [lesson 08](08_unused.ipynb), *Unused parameters and changing graphs*. Or back to the [index](index.ipynb).
