# misconception: one_forward
import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    inputs, targets = zip(*micro_batches)
    sizes = [len(x) for x in inputs]
    ddp.zero_grad()

    outputs = ddp(torch.cat(inputs)).split(sizes)
    loss = sum(losses_of(out, target).sum() for out, target in zip(outputs, targets))

    total = torch.tensor([loss.item(), sum(sizes)], dtype=torch.float64, device=loss.device)
    dist.all_reduce(total)
    loss_sum, samples = total.tolist()

    (loss * dist.get_world_size() / samples).backward()
    return loss_sum / samples
