# One all-reduce of everything, whose memory is made before training.
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    trained = [p for p in ddp.parameters() if p.requires_grad]
#~ frozen -1 |    trained = list(ddp.parameters())
    flat = torch.zeros(1 + sum(p.numel() for p in trained))
    count, *parts = flat.split([1, *(p.numel() for p in trained)])
    for image in images:
        flat.zero_()
        optimizer.zero_grad()
        try:
            with ddp.no_sync():
                loss_of(ddp, image).backward()
            for part, p in zip(parts, trained, strict=True):
                if p.grad is not None:
                    part.view_as(p).copy_(p.grad)
            count.fill_(1)
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):
                raise
            flat.zero_()
        dist.all_reduce(flat)
        good = count.item()
        if good == 0:
            continue
#~ skipped -2 |        if good < dist.get_world_size():
#~ |            continue
#~ steps_anyway -2 |        good = max(good, 1)
        flat /= good
#~ zeros -1 |        flat /= dist.get_world_size()
        for part, p in zip(parts, trained, strict=True):
            p.grad = part.view_as(p)
        optimizer.step()
#~ step_in_try -1 |        try:
#~ |            optimizer.step()
#~ |        except RuntimeError:
#~ |            continue

#~ frozen: misconception: frozen_moved
#~ frozen: breaks: They are those of one process that has never drawn the images that failed.
#~ skipped: misconception: skipped_by_all
#~ skipped: breaks: They are those of one process that has never drawn the images that failed.
#~ step_in_try: misconception: step_in_try
#~ step_in_try: breaks: Memory that runs out in the optimizer's step ends the training.
#~ steps_anyway: misconception: nobody_good
#~ steps_anyway: breaks: They are those of one process that has never drawn the images that failed.
#~ zeros: misconception: zeros_counted
#~ zeros: breaks: They are those of one process that has never drawn the images that failed.
