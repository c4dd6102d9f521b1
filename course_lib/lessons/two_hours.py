# %% [markdown]
# # Two hours of DDP, for somebody who has a script
#
# Six parts, made of cells of the lessons, with all that they say. Each part ends with the lessons that go on from there.
# 120 minutes, and most of what people get wrong. You know PyTorch on one GPU; a CPU is enough here.
#
# Run the cells from the top (`Shift`+`Enter`). Where there are answers to choose from, choose before you run the next cell.
#
# # 1 · Four ranks, four ways to break them, and your own script

# %% from="00 two-hours-1"

# %% [markdown]
# ## Your own script
#
# `ddp-course doctor train.py` looks for all that in a script, and leaves the script as it is. Try it on one that raises nothing, and
# whose loss falls:

# %% from="08 two-hours-1"

# %% [markdown]
# Now yours, in a terminal: `ddp-course doctor --ranks 2 train.py`, and behind it what your script takes.
#
# ## Read on
#
# [Lesson 00](00_first_ranks.ipynb), which collective does what, and what a stop button can do;
# [lesson 02](02_process_groups.ipynb), how the processes find each other.
#
# # 2 · From one GPU to DDP

# %% from="00 two-hours-2"

# %% [markdown]
# A script with a `DataLoader` has some more lines to change. They are the same if it has had `DataParallel` until now:

# %% from="01 two-hours-2"

# %% from="03 two-hours-2"

# %% [markdown]
# ## Read on
#
# [Lesson 03](03_samplers.ipynb), also for streams and for an accuracy over all ranks;
# [lesson 05](05_stragglers.ipynb), batches of different sizes.
#
# # 3 · When DDP talks

# %%
# %%ranks 2
from torch.nn.parallel import DistributedDataParallel

# %% from="04 two-hours-3"

# %% [markdown]
# ## A head that a batch does not use

# %% from="08 two-hours-3"

# %% [markdown]
# ## Less talk: accumulation

# %% from="10 two-hours-3"

# %% [markdown]
# ## Read on
#
# [Lesson 04](04_buckets.ipynb) builds DDP in five steps; [lesson 08](08_unused.ipynb), three ways out;
# [lesson 10](10_accumulation.ipynb), clipping and 16 bits.
#
# # 4 · A hang, from outside

# %% from="13 two-hours-4"

# %% [markdown]
# For a job that hangs *now*, whoever has started it: `ddp-course doctor --attach`.

# %% [markdown]
# ## Read on
#
# [Lesson 13](13_debugging.ipynb), the flight recorder and what NCCL's stacks hide; [lesson 16](16_cluster.ipynb), the logs of two
# machines, Slurm, and what a job leaves behind.
#
# # 5 · Kill it, and start it again

# %% from="12 two-hours-5"

# %% [markdown]
# ## Read on
#
# [Lesson 12](12_elastic.ipynb), to leave when the scheduler asks for it; [lesson 14](14_checkpoints.ipynb), what belongs into a
# checkpoint; [lesson 11](11_out_of_memory.ipynb), one rank without memory.
#
# # 6 · Three faults
#
# Each is from scripts that people have run for weeks. One launch each.
#
# ## 1: a step of a GAN

# %% from="06 two-hours-6"

# %% [markdown]
# ## 2: an encoder and a decoder

# %% from="07 two-hours-6"

# %% [markdown]
# ## 3: a checkpoint, loaded by one

# %% from="09 two-hours-6"

# %% [markdown]
# ## Read on
#
# [Lesson 06](06_alternation.ipynb), [07](07_wrappers.ipynb), [09](09_synchronised.ipynb). More faults, in one script that you
# repair: [lesson 18](18_capstone.ipynb). Or back to the [index](index.ipynb).
