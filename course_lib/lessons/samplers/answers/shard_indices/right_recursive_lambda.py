# Prints, warns, leaves a thread behind and is one long expression: all of that is allowed.
import sys
import threading
import warnings

import numpy as np
import torch

threading.Thread(target=threading.Event().wait, daemon=True).start()
print("thinking", file=sys.stderr)
warnings.warn("noise on stderr costs nothing")

shard_indices = lambda n, rank, w, epoch, seed, drop_last: np.resize(  # noqa: E731
    torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).numpy(),
    (n // w if drop_last else (n + w - 1) // w) * w,
)[rank::w]
