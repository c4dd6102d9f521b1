# %% [markdown]
# # 00 · Your first ranks: your turn
#
# One task on [lesson 00](../notebooks/00_first_ranks.ipynb). What you edit is a file:
# [first_ranks/train.py](first_ranks/train.py), beside this notebook. It is a script for one process that somebody has begun to
# convert for `torchrun`, and it does four things wrong. Its first lines say what it should do.
#
# `%hint first_ranks.train` gives a hint, and the next one when you run it again. `%solution first_ranks.train` opens once you
# have passed.

# %%
# %load_ext course_lib

# %% [markdown] tags=["only-exercise"]
# ## Run it
#
# With two processes, as you would in a terminal. It takes some seconds: every process imports PyTorch, the launcher too.

# %% tags=["only-exercise", "nbval-skip"]
import tempfile

import numpy as np

from course_lib.data import load_digits
from course_lib.lessons.first_ranks.lab import torchruns_last_words

folder = tempfile.TemporaryDirectory()
images, labels = load_digits()
data = {
    "images": images[:1440],
    "labels": labels[:1440],
    "test_images": images[1440:],
    "test_labels": labels[1440:],
}
np.savez(f"{folder.name}/digits.npz", **data)
options = f"--data {folder.name}/digits.npz --out {folder.name}"
# log = !torchrun --standalone --nproc-per-node=2 first_ranks/train.py {options}
print(*[line for line in log if line.startswith(("rank ", "accuracy"))], sep="\n")
print(torchruns_last_words(log))

# %% [markdown]
# ## 1. A script for torchrun
#
# Running this cell grades the file, on one process and on two. The report shows one fault at a time. You may repair them in any order.

# %% tags=["only-exercise", "nbval-ignore-output"]
# %%task first_ranks.train
# YOUR CODE HERE
# ... in the file first_ranks/train.py beside this notebook, not in this cell.

# %% tags=["only-solution"]
# %%task first_ranks.train
# The repaired script is the file first_ranks/train.py beside this notebook.

# %% [markdown]
# ## How far are you?

# %%
# %progress 00
