# kind: none
# ranks: 2
# Rank 0 writes what all ranks read behind a barrier; all of them add to one log, and keep a file of their own.
import json
import os
import tempfile

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
os.chdir(folder[0])
if dist.get_rank() == 0:
    with open("config.json", "w", encoding="utf-8") as file:
        json.dump({"rate": 0.1}, file)
    torch.save(torch.zeros(4), "first.pt")
dist.barrier()
with open(file="config.json", encoding="utf-8") as file:
    rate = json.load(file)["rate"]
weights = torch.load("first.pt") + rate
with open("log.txt", "a", encoding="utf-8") as file:
    file.write(f"{dist.get_rank()}\n")
with open(f"own.{dist.get_rank()}", "wb+") as file:
    torch.save(weights, file)
    file.seek(0)
    assert torch.equal(torch.load(file), weights)
dist.all_reduce(weights)
dist.destroy_process_group()
