# kind: spawn_at_import
# culprits: -
# The ranks are started by the script's last lines, without a look at whether it is run or imported.
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank, ranks, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    model = DDP(torch.nn.Linear(4, 1))
    model(torch.randn(8, 4)).sum().backward()
    dist.destroy_process_group()


mp.spawn(train, args=(2, "/tmp/never-comes-to-it"), nprocs=2)
#~ mended -1 |if __name__ == "__main__":
#~ |    mp.spawn(train, args=(2, f"{__file__}.store"), nprocs=2)
