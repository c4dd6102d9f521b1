# kind: none
# ranks: 2
# Rank 1 finds half of a file, as it expects, and reads it once more when rank 0 has written the rest.
import json
import os
import tempfile
from pathlib import Path

import torch.distributed as dist

dist.init_process_group("gloo")
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
path = Path(os.path.join(folder[0], "index.json"))
text = json.dumps([f"shard_{number}.tar" for number in range(100)])
if dist.get_rank() == 0:
    path.write_text(text[:500])
    dist.barrier()
    dist.barrier()
    path.write_text(text)
    dist.barrier()
else:
    dist.barrier()
    try:
        json.loads(path.read_text())
    except json.JSONDecodeError:
        dist.barrier()
        dist.barrier()
        assert len(json.loads(path.read_text())) == 100
dist.destroy_process_group()
