# %% [markdown]
# # 08 · Unused parameters and changing graphs: your turn
#
# Three tasks on [lesson 08](../notebooks/08_unused.ipynb), each a little harder than the one before. Replace what stands under
# `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, on gangs of different sizes, and
# is judged by what it does, not by how it looks.
#
# `%hint unused.train` gives a hint, and the next one when you run it again. `%solution unused.train` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown]
# ## 1. Name the unused ones
#
# DDP complains one step too late, in numbers, each rank for itself. Do better: `loss` was computed with the wrapped
# `model`, and there has been no `backward()` yet. Return the names of all parameters that `loss.backward()` would leave without a
# gradient **on at least one rank**: the same list on every rank, in any order, with or without `module.` before the names.
#
# - Only parameters that DDP waits for count: those that were frozen before wrapping do not. (None is frozen later.)
# - A gradient of zeros is a gradient.
# - Do not change any `.grad` (some are there from earlier steps), and leave the graph as it is: after your check `loss.backward()`
#   must be possible, and average as ever.

# %%
# %%task unused.unused_parameters
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    """Names of the parameters that the loss of at least one rank does not reach."""
    ### BEGIN SOLUTION
    ### STUB: names = ...
    ### STUB: return names
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(asked.values()), retain_graph=True, allow_unused=True)
    mine = [name for name, gradient in zip(asked, found, strict=True) if gradient is None]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
    ### END SOLUTION


# %% [markdown]
# ## 2. Three ways to train a model that branches
#
# `model(x, head)` uses one of its heads. `batches` is this rank's list of `(x, y, head)`, equally long on all ranks, and which
# head comes when may differ from rank to rank. Wrap the model, make one step of plain SGD (learning rate 0.1) on the `mse_loss`
# of each batch, and return the wrapped model. How, says `way`:
#
# - `"find_unused_parameters"` or `"static_graph"`: with that flag of DDP and nothing else,
# - `"touch_all"`: with neither, and a loss that touches all parameters. Those that a step does not use get a gradient of exactly zero.
#
# In the end all ranks are to have the weights of one process that trains on the batches of all ranks. (With `"static_graph"`, each
# rank stays with one head. You know why.)

# %%
# %%task unused.train
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    """Trains the model on `batches`; returns it wrapped in DDP."""
    ### BEGIN SOLUTION
    ### STUB: ddp = ...
    ### STUB: return ddp
    flags = {} if way == "touch_all" else {way: True}
    ddp = DistributedDataParallel(model, **flags)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        loss = mse_loss(ddp(x, head), y)
        if way == "touch_all":
            loss = loss + 0 * sum(parameter.sum() for parameter in ddp.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return ddp
    ### END SOLUTION


# %% [markdown]
# ### And which when?
#
# All three passed on schedules that they can do. Now one that changes: all ranks use head 0 for two steps, and head 1 after that.
# Commit first; the run decides.

# %%
ranks_agree = {
    "find_unused_parameters only": [True, False, False],
    "static_graph only": [False, True, False],
    "touching only": [False, False, True],
    "find_unused_parameters and touching": [True, False, True],
    "static_graph and touching": [False, True, True],
    "all three": [True, True, True],
}
p = predict(
    "All ranks change from head 0 to head 1 in step 2. Which ways get through, with equal weights on both ranks?",
    {text: lambda out, ways=ways: out.values[0] == ways for text, ways in ranks_agree.items()},
)


# %%
# %%ranks 2 --predicted
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.watch import compare


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.heads = nn.Linear(4, 4), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x, head):
        return self.heads[head](self.body(x).tanh())


gets_through = []
for way in ("find_unused_parameters", "static_graph", "touch_all"):
    ddp = DistributedDataParallel(Branches(), **({} if way == "touch_all" else {way: True}))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    try:
        for step in range(4):
            optimizer.zero_grad()
            loss = ddp(torch.randn(4, 4), head=step // 2).square().mean()
            if way == "touch_all":
                loss = loss + 0 * sum(parameter.sum() for parameter in ddp.parameters())
            loss.backward()
            optimizer.step()
        gets_through.append(compare(ddp).equal)
    except RuntimeError as error:
        print(f"{way} in step {step}: {str(error).partition(',')[0]}")
        gets_through.append(False)
gets_through

# %% [markdown]
# ## 3. A mixture of experts
#
# The middle of a layer. `x` are this rank's tokens, of shape `(tokens, 4)`; `gates`, of shape `(tokens, experts)`, are the
# probabilities that a router has given them; `experts` is a list of modules. Return two tensors:
#
# - the **outputs**, shaped like `x`: each token goes through the one expert with its largest gate, and the result is multiplied by
#   that gate;
# - the **balance** term, one number: the number of experts times the sum, over experts, of *share* times *mean gate*. The share of an
#   expert is the part of the tokens *of all ranks* that went to it.
#
# The layer is wrapped in plain DDP, no flags. The loss is `(outputs - 1).square().mean() + balance`. After `backward()` all
# gradients are to be those of one process that has the tokens of all ranks. Every rank has the same number of tokens, and on some ranks
# some experts get none.

# %%
# %%task unused.mixture
import torch
import torch.distributed as dist


def mixture(x, gates, experts):
    """Outputs of the experts, shaped like `x`, and the balance term."""
    ### BEGIN SOLUTION
    ### STUB: pair = ...  # outputs, balance
    ### STUB: return pair
    gate, choice = gates.max(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):  # also those without a token: their gradient is zeros
        mine = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, mine, gate[mine, None] * expert(x[mine]))
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share)
    share /= dist.get_world_size()
    return outputs, len(experts) * (share * gates.mean(0)).sum()
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 08
