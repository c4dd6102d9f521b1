# kind: threads_share_a_group
# culprits: -
# timeout: 15
# ranks: 2
# A thread averages metrics in the default group while the main thread trains in it.
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def average_metrics(step_done, group):
    for _ in range(3):
        step_done.wait()
        step_done.clear()
        time.sleep(0 if sooner else 0.3)  # something to be computed first
        dist.all_reduce(torch.zeros(3), group=group)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step_done = threading.Event()
# On rank 1 the thread is sooner than the next step, on rank 0 it is later.
sooner = dist.get_rank() == 1
group = None
#~ mended -1 |group = dist.new_group()
meter = threading.Thread(target=average_metrics, args=(step_done, group), daemon=True)
meter.start()
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
    if step % 4 == 3:
        step_done.set()
        if sooner:
            meter.join(0.3)
meter.join()
dist.destroy_process_group()
