# kind: none
# ranks: 2
# torch.distributed.pipelining: two stages, four micro-batches, GPipe's schedule.
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
stage = PipelineStage(module, rank, size, torch.device("cpu"), input_args=(torch.randn(2, 4),))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    if rank == 0:
        schedule.step(torch.randn(8, 4))
    else:
        schedule.step(target=torch.zeros(8, 4))
    optimizer.step()
dist.destroy_process_group()
