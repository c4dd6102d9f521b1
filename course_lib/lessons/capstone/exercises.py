# %% [markdown]
# # 18 · Capstone: rescue the training script: your turn
#
# One task on [lesson 18](../notebooks/18_capstone.ipynb). What you edit is a file: [capstone/train.py](capstone/train.py), beside this
# notebook. It has fifteen faults. Its first lines say what it should do.
#
# `%hint capstone.train` gives a hint, and the next one when you run it again. `%solution capstone.train` opens once you have passed.

# %%
# %load_ext course_lib

# %% [markdown] tags=["only-exercise"]
# ## Run it
#
# As it will be used, `torchrun` and all. Change the number of processes, the epochs, the micro-batches; `FOLDER` is new in every run of this
# cell, so nothing is resumed unless you want it. It takes some seconds: every process imports PyTorch, the launcher too.

# %% tags=["only-exercise", "nbval-skip"]
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="ddp-course-capstone-")
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
told = subprocess.run(
    [*torchrun, "capstone/train.py", "--epochs", "1", "--out", FOLDER.name],
    capture_output=True,
    text=True,
    timeout=300,
)
print(told.stdout + f"exit code {told.returncode}")  # told.stderr is long

# %% [markdown] tags=["only-exercise"]
# ## Ask the doctor
#
# Predict first what it will find, then ask it, in a terminal in this folder or with `!` in front in a cell of your own:
#
# ```bash
# ddp-course doctor --ranks 2 capstone/train.py --epochs 1 --out "$(mktemp -d)"
# ```

# %% [markdown]
# ## Check it
#
# Running this cell grades the file: six launches, ten to thirty seconds, longer on a busy machine or when ranks hang.
# The report ticks what holds and tells the symptoms of the rest. A word of the script behind `--suspect` asks about that word: add it to
# the first line, as in `%%task capstone.train --suspect mender`. You may repair in any order.

# %% tags=["only-exercise", "nbval-ignore-output"]
# %%task capstone.train
# YOUR CODE HERE
# ... in the file capstone/train.py beside this notebook, not in this cell.

# %% tags=["only-solution"]
# %%task capstone.train
# The repaired script is the file capstone/train.py beside this notebook.
