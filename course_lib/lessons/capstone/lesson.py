# %% [markdown]
# # 18 · Capstone: rescue the training script
#
# > *“It works on my laptop. On the cluster it is slower, worse, and every third night it is dead in the morning. I have not changed a
# > line. Is it PyTorch?”*
#
# Another script, by another hand: digits are read and mended, with gradient accumulation, evaluation and checkpoints. It has fifteen faults, of the
# kinds that you have repaired in [your own script](00_first_ranks.ipynb), and it makes them in its own way. This is what its users say:
#
# - On four processes it reads fewer digits than on one, after the same epochs.
# - Every run ends with an error, when all epochs are done.
# - With some blank scans and three processes, it does not come to an end.
# - On two machines it is no faster than on one.
# - After a kill, it once began from nothing, and once went on with a dent in its curve.
# - The accuracy in its log is no number that 25 test images can give.
#
# Real `torchrun` launches with real accidents say how far you are.
#
# **You will be able to** take a training script that you have not written and find out, by experiment, what it does on many ranks.
# 20 minutes for this page, 90 minutes to an evening for the script. **Before this:** all lessons up to 14.

# %%
# %load_ext course_lib

# %% [markdown]
# ## What the script promises
#
# A program of which nobody says what it should do has no faults. This one's first lines are a contract. Read it before you read the
# code: all that is judged stands here.

# %%
import ast
from pathlib import Path

SCRIPT = Path("../exercises/capstone/train.py")
promises = ast.get_docstring(ast.parse(SCRIPT.read_text()))
print(promises)

# %% [markdown]
# ## It works on one process
#
# `examine` is what `ddp-course doctor` calls: it runs an unchanged script on ranks of this notebook and watches it. First with one.

# %%
import re
import tempfile

from course_lib.lessons.capstone.lab import accuracy
from course_lib.scripts.examine import examine

FOLDER = tempfile.TemporaryDirectory()


def trained_on(ranks):
    """Two epochs on so many ranks."""
    options = ["--epochs", "2", "--out", tempfile.mkdtemp(dir=FOLDER.name)]
    started = {"timeout": 80, "waiting": False, "method": "forkserver"}
    return examine(str(SCRIPT), options, ranks=ranks, **started).outcome


accuracies = {1: accuracy(trained_on(1))}
print(f"1 rank: {accuracies[1]:.2f}")

# %% [markdown]
# The loss falls, digits are read. A reviewer who has one GPU has nothing to say.
#
# ## The same digits on more ranks
#
# Now with two and four ranks. The data are the same, so are the epochs and the seed. There are fewer steps in an epoch, each on more
# images, so the result may differ a little.

# %%
p = predict("18.four_ranks", alone=accuracies[1])

# %%
for ranks in (2, 4):
    out = trained_on(ranks)
    accuracies[ranks] = accuracy(out)
    print(f"{ranks} ranks: {accuracies[ranks]:.2f}")
p.reveal(out)

# %%
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7, 2.6))
bars = ax.bar(
    [str(ranks) for ranks in accuracies],
    list(accuracies.values()),
    color="#56B4E9",
    edgecolor="black",
    hatch="//",
    width=0.5,
)
ax.bar_label(bars, fmt="%.2f", padding=2)
ax.axhline(0.1, color="black", linestyle=":", linewidth=1)
ax.text(1.5, 0.13, "guessing", ha="center", fontsize=9)
ax.set_ylim(0, 1)
ax.set_xlabel("ranks")
ax.set_ylabel("accuracy after 2 epochs")
worse = accuracies[4] < accuracies[1] - 0.05
end = "every rank that helps makes it worse" if worse else "as well read by four ranks as by one"
ax.set_title(f"The same digits, the same epochs: {end}", fontsize=11)
fig.tight_layout()

# %% [markdown]
# That is the script as it is handed out. No weight became NaN, no rank hung while it trained. The gradients are wrong, and gradient
# descent goes downhill with wrong gradients, too. (Four ranks also take fewer steps. How much that matters, the bars will show when
# the script is repaired.)
#
# When you have repaired your copy of the script, come back and run this page again: it always runs *your* `exercises/capstone/train.py`.
#
# ## How to work
#
# **Ask one question at a time.** Each line below changes one thing, and you should be able to say beforehand what will happen:
#
# ```bash
# torchrun --standalone --nproc-per-node 2 capstone/train.py --epochs 2 --out "$(mktemp -d)"      # as it will be used
# ddp-course doctor --ranks 2 capstone/train.py --epochs 2 --out "$(mktemp -d)"                   # who waits for whom, what drifts apart
# ddp-course doctor --ranks 3 capstone/train.py --epochs 1 --accumulate 1 --out "$(mktemp -d)"    # without accumulation
# ```
#
# Type them in the folder `exercises`. Each gets a new folder: in an old one it would find a checkpoint, and train nothing.
#
# The doctor finds what hangs, dies or drifts apart. A step that is equally wrong on all ranks looks sound to it.
#
# **Compare with one process.** Two ranks that take the same step as one process on the same images prove a lot. Print a number that
# should be equal, such as a norm of the gradients before the step, on each rank.
#
# **Choose a way out that fits.** Lesson 11's ways out of a failed allocation differ in price, and here also in difficulty: with two wrapped
# models, several forwards in a step and `no_sync`, agreeing before anybody is in the next collective is harder than it was there.
#
# **Repair in any order.** Each fault is judged by itself. The report counts the promises that are kept, and of the rest it tells symptoms:
# which launch ended how, and how far its weights are off. Finding the causes is the work.
#
# **Suspect something.** Put a word of the script behind the task, such as `%%task capstone.train --suspect mender` (in a terminal
# `ddp-course check --suspect mender capstone/train.py`). If a check about it does not hold, the report now says what was observed, and
# names a lesson. Where one fault hides another, it says what was not reached, and why. `%hint` helps in small steps.
#
# ## How it is judged
#
# Six launches, by torchrun's own agent, on digits that are drawn anew for each answer. Something happens in most of them, and it is real:
#
# | launch | processes | what happens |
# | --- | --- | --- |
# | alone | 1 | nothing, but some micro-batches are left over |
# | plain | 2 | nothing: two epochs, compared with what one process finds on the same images |
# | killed | 2 | rank 0 is killed in the second epoch, all are restarted, the writer is killed while it writes the checkpoint, and all are restarted |
# | hungry | 2 | an allocation fails in rank 1, in the middle of a forward |
# | blanks | 3 | some images are blank, so one rank may have less to do |
# | slow | 4, playing two machines | rank 1 is four seconds late |
#
# Your script is not read, only watched: which images go through which model on which rank, what is zeroed, averaged and stepped when, what
# is saved, how it ends. What it saves is compared with a single-process reference, weight by weight. So any repair is right that does what
# is promised. (The agent forks the ranks from a process that has PyTorch loaded, where the program `torchrun` would start fresh
# interpreters; rendezvous, store, restarts and the end are torchelastic's own: `launch_agent` in `torch/distributed/launcher/api.py`.
# The two machines are played: the local ranks are set as two agents would set them.)
#
# Sixteen checks: one for each fault, and one for the whole. This is where your copy stands.

# %%
from course_lib.grading.grader import grade

verdict = grade("capstone.train", SCRIPT.read_text(), even_untouched=True)
held = sum(check.state == "passed" for check in verdict.checks)

print(f"Your script keeps {held} of {len(verdict.checks)} promises:")
print(*[check.sentence for check in verdict.checks if check.state == "passed"], sep="\n")

# %% [markdown]
# ## What goes wrong in real life
#
# The fifteen come together easily. A script that is right on one process gets a wrapper, a sampler and an `if rank == 0`, the loss still
# falls, and the review looks at the model. Faults that hide behind each other are worse. A swallowed error looks like a hang; a hang is
# met with a shorter timeout; the shorter timeout ends healthy runs; a restart then loses the optimizer's memory, and the curve has a dent
# that somebody explains with the learning rate.
#
# ## Rule of thumb
#
# > A script is distributed when two ranks take the step that one process would take, when each rank has its own share and all have the same
# > end, and when you have killed it, starved it and slowed it down yourself. Until then it is a script that has not failed yet.
#
# ## Your turn
#
# The script lies in `exercises/capstone/train.py`; edit that file. [exercises/18_capstone](../exercises/18_capstone.ipynb) runs it and
# grades it, and so does `ddp-course check --watch exercises/capstone/train.py` whenever you save.
#
# ## Further reading
#
# - `torch/distributed/run.py`: the docstring says what a script must be ready for under `torchrun`.
# - `torch/distributed/launcher/api.py` and `torch/distributed/elastic/agent/server/api.py`: the agent that runs your script here.
# - `torch/distributed/elastic/agent/server/local_elastic_agent.py`: how workers are started, watched and ended.
#
# **Back to:** the [index](index.ipynb).
