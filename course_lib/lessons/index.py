# %% [markdown]
# # DDP by experiment
#
# **Two hours, and a script of your own?** Take [two hours of DDP](two_hours.ipynb): six parts, made of cells of the lessons.
#
# A course on PyTorch `DistributedDataParallel`. You run every claim yourself, on real processes, and break most of them on
# purpose. Start at the top, or where your question is: the column *after* says which lessons a lesson builds on. Lesson 09 can be read
# right after 04, before 07, and the first half of 13 right after 00, when a job hangs today.
#
# | | lesson | question | after | minutes | |
# | --- | --- | --- | --- | --- | --- |
# | 00 | [Your first ranks](00_first_ranks.ipynb) | How do four processes work together, and what happens when one does not? | | 50 | [tasks](../exercises/00_first_ranks.ipynb) |
# | 01 | [DataParallel vs DDP](01_dataparallel.ipynb) | One line against a launcher: what does each do in a step? | 00 | 35 | [tasks](../exercises/01_dataparallel.ipynb) |
# | 02 | [Process groups and init](02_process_groups.ipynb) | How do processes find each other, and what happens when one does not come? | 00 | 50 | [tasks](../exercises/02_process_groups.ipynb) |
# | 03 | [Samplers](03_samplers.ipynb) | Who gets which sample? | 00 | 50 | [tasks](../exercises/03_samplers.ipynb) |
# | 04 | [Gradients, hooks and buckets](04_buckets.ipynb) | When does DDP send what? | 00 | 50 | [tasks](../exercises/04_buckets.ipynb) |
# | 05 | [When ranks run at different speeds](05_stragglers.ipynb) | Who waits for whom, and what does it cost? | 00, 04 | 50 | [tasks](../exercises/05_stragglers.ipynb) |
# | 06 | [Forward/backward alternation](06_alternation.ipynb) | May I call the model twice before I call backward? | 00, 04 | 50 | [tasks](../exercises/06_alternation.ipynb) |
# | 07 | [Wrapper modules](07_wrappers.ipynb) | Which parameters does DDP look after, and which not? | 00, 04 | 45 | [tasks](../exercises/07_wrappers.ipynb) |
# | 08 | [Unused parameters and changing graphs](08_unused.ipynb) | What happens when a parameter gets no gradient? | 00, 04, 06 | 45 | [tasks](../exercises/08_unused.ipynb) |
# | 09 | [What is synchronised, and when](09_synchronised.ipynb) | What does DDP keep equal, and what does it never look at? | 00, 04 | 40 | [tasks](../exercises/09_synchronised.ipynb) |
# | 10 | [Accumulation, clipping and mixed precision](10_accumulation.ipynb) | Which gradient reaches the optimizer? | 04, 05 | 50 | [tasks](../exercises/10_accumulation.ipynb) |
# | 11 | [Out of memory on one rank](11_out_of_memory.ipynb) | It caught the error and went on: what do the others get? | 00, 04, 06 | 45 | [tasks](../exercises/11_out_of_memory.ipynb) |
# | 12 | [Elastic training](12_elastic.ipynb) | A rank has died: who restarts what, and what is lost? | 00, 02, 03 | 40 | [tasks](../exercises/12_elastic.ipynb) |
# | 13 | [Debugging a hang](13_debugging.ipynb) | Seven ranks complain: which one is to blame? | 00 | 45 | [tasks](../exercises/13_debugging.ipynb) |
# | 14 | [Logging, metrics, checkpoints](14_checkpoints.ipynb) | What survives a kill, and what must be in the file? | 03, 09 | 45 | [tasks](../exercises/14_checkpoints.ipynb) |
# | 15 | [Predict the scaling](15_scale.ipynb) | Eight GPUs are 7.6 times as fast as one: what do 64 give me? | 04, 05 | 35 | [tasks](../exercises/15_scale.ipynb) |
# | 16 | [From laptop to cluster](16_cluster.ipynb) | It runs on my machine: what is different on two? | 00, 02 | 45 | [tasks](../exercises/16_cluster.ipynb) |
# | 17 | [When DDP ends](17_sharding.ipynb) | Will it fit on more GPUs, and what can be cut? | 04 | 45 | [tasks](../exercises/17_sharding.ipynb) |
# | 18 | [Capstone: rescue the training script](18_capstone.ipynb) | Fifteen faults, one script: what does it really do? | 02 to 14 | an evening | [tasks](../exercises/18_capstone.ipynb) |
#
# Words: the [glossary](glossary.ipynb). All rules of thumb on one page, to be printed: the
# [cheat sheet](../docs/cheatsheet.html). What people say about DDP, and which cell shows what becomes of it:
# [claims](../docs/claims.md). Both give answers away: read them after the lessons. Solved tasks, once you have tried:
# `%solution NAME`.
#
# **How it works.** Open a lesson and run its cells one after the other (`Shift`+`Enter`). A cell that starts with `%%ranks 4`
# runs on four real ranks. Where a question with radio buttons comes, choose *before* you run the next cell: the run decides
# who was right. When something hangs, the cell says why within about a second; the stop button always gives you the kernel
# back.
#
# **Your copy.** `make lab` (or `ddp-course lab`) opens these notebooks as a copy that is yours, without saved outputs; what explains a
# run is folded until that run is over. Change in the copy what you like: a newer version of the course replaces only what you have not changed. Of what you have changed, the new
# version comes to lie beside yours, as `03_samplers.new.ipynb` for example, and the map below says so. In a terminal of
# JupyterLab, `ddp-course reset 03` puts a lesson back, and `ddp-course reset exercises/03` its exercises; your old one is kept in the folder
# `kept`.
#
# Where you stand:

# %%
# %load_ext course_lib

# %% tags=["nbval-ignore-output"]
# %progress
