import torch
import torch.distributed as dist
#~ without_barrier -1

culprit = 2
#~ witness -1 |culprit = 1
cause = "fewer_batches"
#~ late -1 |cause = "late"
#~ other_cause -1 |cause = "died"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    steps = torch.tensor((len(usable) + 1) // 2)
#~ full_batches -1 |    steps = torch.tensor(len(usable) // 2)
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)  # as many as all ranks can do
#~ those_of_rank_2 -1 |    dist.broadcast(steps, src=2)  # the culprit's
    for begin in range(0, 2 * steps.item(), 2):
#~ three_steps -3 |    for begin in range(0, 6, 2):
#~ without_barrier -3 |    for begin in range(0, len(usable), 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
#~ module -1 |        ddp.module(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()
#~ no_wait -1
#~ without_barrier -1

#~ full_batches: misconception: none
#~ full_batches: breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
#~ late: misconception: only_late
#~ late: breaks: cause says why.
#~ module: misconception: none
#~ module: breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
#~ no_wait: misconception: none
#~ no_wait: breaks: It returns on no rank before all ranks are through with their steps.
#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
#~ those_of_rank_2: misconception: leftovers_trained
#~ three_steps: misconception: number_written_in
#~ three_steps: breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
#~ without_barrier: misconception: still_uneven
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
