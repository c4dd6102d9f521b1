# misconception: summed_over_ranks
import torch.distributed as dist


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    model = ddp.module
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        optimizer.zero_grad()
        loss = sum(loss_of(model(x), y) for x, y in group) / len(group)
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
