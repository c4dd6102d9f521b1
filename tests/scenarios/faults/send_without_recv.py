# kind: nobody_answers
# culprits: 1
# ranks: 2
# The first stage of a pipeline sends a last micro-batch that the second one does not take.
import torch
import torch.distributed as dist


def first_stage(micro_batches):
    for number in range(micro_batches):
        dist.send(torch.full((1_000_000,), float(number)), dst=1)


def second_stage(micro_batches):
    received = torch.zeros(1_000_000)
    for _ in range(micro_batches):
        dist.recv(received, src=0)


dist.init_process_group("gloo")
if dist.get_rank() == 0:
    first_stage(4)
else:
    second_stage(3)
