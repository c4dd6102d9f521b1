# kind: file_renamed
# ranks: 2
# Every rank writes the same file and renames it; the second one finds it gone.
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
part, path = (os.path.join(folder[0], name) for name in ("last.part", "last.pt"))
state = nn.Linear(4, 4).state_dict()
torch.save(state, part)
dist.barrier()
os.replace(part, path)
#~ mended -3 |if dist.get_rank() == 0:
#~ |    torch.save(state, part)
#~ |    os.replace(part, path)
dist.barrier()
torch.load(path)
dist.destroy_process_group()
