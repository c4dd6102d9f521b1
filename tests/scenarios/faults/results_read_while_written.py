# kind: file_not_whole
# culprits: 1
# ranks: 2
# Rank 1 reads a list of files while rank 0 is in the middle of writing it: half of a list is no JSON.
import json
import os
import tempfile

import torch.distributed as dist

dist.init_process_group("gloo")
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
path = os.path.join(folder[0], "index.json")
if dist.get_rank() == 0:
    text = json.dumps([f"shard_{number}.tar" for number in range(100)])
    with open(path, "w") as file:
        file.write(text[:500])
        file.flush()
        dist.barrier()
        dist.barrier()
        file.write(text[500:])
#~ mended -6 |    with open(path + ".part", "w") as file:
#~ |        file.write(text)
#~ |    os.replace(path + ".part", path)
#~ |    dist.barrier()
#~ |    dist.barrier()
else:
    dist.barrier()
    with open(path) as file:
        names = json.load(file)
    dist.barrier()
dist.destroy_process_group()
