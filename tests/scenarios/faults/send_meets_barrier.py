# kind: waiting_in_a_circle
# culprits: -
# ranks: 2
# A pipeline's first stage hands on one micro-batch more than the second one takes.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
activations = torch.zeros(1_000_000)
if dist.get_rank() == 0:
    for micro_batch in range(4):
        dist.send(activations + micro_batch, dst=1)
else:
    for _micro_batch in range(3):
        dist.recv(activations, src=0)
dist.barrier()
dist.destroy_process_group()
