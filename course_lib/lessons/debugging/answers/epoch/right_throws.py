import torch
import torch.distributed as dist

culprit = 2
cause = "fewer_batches"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]
    try:
        with ddp.join(throw_on_early_termination=True):
            for begin in range(0, len(usable), 2):
                batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
                optimizer.zero_grad()
                ddp(batch).square().mean().backward()
                optimizer.step()
    except RuntimeError as error:
        if "exhausted" not in str(error):
            raise
#~ join -10 |    with ddp.join():
#~ |        for begin in range(0, len(usable), 2):
#~ |            batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
#~ |            optimizer.zero_grad()
#~ |            ddp(batch).square().mean().backward()
#~ |            optimizer.step()
    dist.barrier()

#~ join: misconception: leftovers_trained
#~ join: breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
