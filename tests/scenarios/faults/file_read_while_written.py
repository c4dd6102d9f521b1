# kind: file_not_whole
# culprits: 1
# ranks: 2
# Rank 1 reads a checkpoint while rank 0 is in the middle of writing it.
import io
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
path = os.path.join(folder[0], "last.pt")
if dist.get_rank() == 0:
    whole = io.BytesIO()
    torch.save(nn.Linear(512, 512).state_dict(), whole)
    with open(path, "wb") as file:
        file.write(whole.getvalue()[:500_000])
        file.flush()
        dist.barrier()
        dist.barrier()
        file.write(whole.getvalue()[500_000:])
#~ mended -6 |    with open(path + ".part", "wb") as file:
#~ |        file.write(whole.getvalue())
#~ |    os.replace(path + ".part", path)
#~ |    dist.barrier()
#~ |    dist.barrier()
else:
    dist.barrier()
    torch.load(path)
    dist.barrier()
dist.destroy_process_group()
