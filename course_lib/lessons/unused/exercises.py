# %% [markdown]
# # 08 · Unused parameters and changing graphs: your turn
#
# Three tasks on [lesson 08](../notebooks/08_unused.ipynb), each a little harder than the one before. Replace what stands under
# `YOUR CODE HERE` and run the cell: running it *is* checking it. Your code runs on real ranks, on gangs of different sizes, and
# is judged by what it does, not by how it looks.
#
# `%hint unused.choose` gives a hint, and the next one when you run it again. `%solution unused.choose` opens once you have passed.

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
# ## 2. Which way to train?
#
# The model is that of the lesson: a body, and a left and a right head. You know what every rank is going to do:
# `steps[rank][step]` is a list of micro-batches, and each of them is `"left"`, `"right"` or `"both"`, the heads in its loss. All
# micro-batches of a step but its last one run under `no_sync()`. Then the optimizer (SGD) makes its step, with this
# `weight_decay`, and clears every `.grad` to `None`. All ranks have the same number of micro-batches in a step.
#
# Return the **first** of these ways in which the training is right: no rank raises or waits for ever, and after every step all
# ranks have the weights of one process that has the samples of all ranks.
#
# 1. `"default"`: DDP as it is. It costs nothing.
# 2. `"static_graph"`: with that flag. It costs nothing after the first step.
# 3. `"touch"`: no flag, and 0 times the sum of all parameters is added to each loss.
# 4. `"find_unused_parameters"`: with that flag. It costs a walk through the graph and one more all-reduce, in every step.
#
# For example, `choose([[["left"], ["left", "left"]], [["both"], ["both", "both"]]], 0.0)` is asked about two ranks and two steps,
# of which the second one has two micro-batches. After your answer, real ranks train in that way.


# %%
# %%task unused.choose
def choose(steps, weight_decay):
    """The first of the four ways that is right for these steps."""
    ### BEGIN SOLUTION
    ### STUB: way = ...
    ### STUB: return way
    if all(step[-1] == "both" for rank in steps for step in rank):
        return "default"

    def never_changes(rank):
        return len(rank[0]) == 1 and all(used == rank[0][0] for step in rank for used in step)

    if all(never_changes(rank) for rank in steps):
        return "static_graph"
    for everyones in zip(*steps, strict=True):  # one step of all ranks
        heads = {used for step in everyones for used in step}
        if weight_decay and heads in ({"left"}, {"right"}):
            return "find_unused_parameters"  # a touch would move the head that nobody uses
    return "touch"
    ### END SOLUTION


# %% [markdown]
# ## 3. A mixture of experts
#
# The middle of a layer, as many models have it: each token goes through the *two* experts with its largest gates. `x`, of shape
# `(tokens, 4)`, are this rank's tokens, and `gates`, of shape `(tokens, experts)`, are a router's probabilities. **Ranks have
# different numbers of tokens, and a rank may have none.** Return two tensors:
#
# - the **outputs**, shaped like `x`: the two results of a token, each multiplied by its gate, and added;
# - this rank's **loss**, on which `backward()` is called. One process with the tokens of all ranks has the loss
#   `(outputs - y).square().mean()`.
#
# The layer is wrapped in plain DDP, no flags. After `backward()`, all gradients are to be those of that process, and the mean of
# the ranks' losses is to be its loss.

# %%
# %%task unused.mixture
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    """Outputs of the experts, shaped like `x`, and this rank's loss."""
    ### BEGIN SOLUTION
    ### STUB: pair = ...  # outputs, loss
    ### STUB: return pair
    gate, choice = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):  # also those without a token: their gradient is zeros
        token, place = (choice == number).nonzero(as_tuple=True)
        outputs = outputs.index_add(0, token, gate[token, place, None] * expert(x[token]))
    tokens = x.new_tensor(len(x))
    dist.all_reduce(tokens)
    factor = dist.get_world_size() / tokens  # DDP divides by the number of ranks
    return outputs, factor * (outputs - y).square().mean(1).sum()
    ### END SOLUTION


# %% [markdown]
# ## How far are you?

# %%
# %progress 08
