# One all-reduce of everything, whose memory is made before training; under no_sync the wrapper sends nothing.
import torch
import torch.distributed as dist


def detection_loop(ddp, optimizer, images, loss_of):
    trained = [p for p in ddp.parameters() if p.requires_grad]
#~ frozen -1 |    trained = list(ddp.parameters())
    flat = torch.zeros(1 + len(trained) + sum(p.numel() for p in trained))
    good, users, *parts = flat.split([1, len(trained), *(p.numel() for p in trained)])
    for image in images:
        flat.zero_()
        optimizer.zero_grad()
        try:
            with ddp.no_sync():
                loss_of(ddp, image).backward()
            for part, p, uses in zip(parts, trained, users, strict=True):
                if p.grad is not None:
                    part.view_as(p).copy_(p.grad)
                    uses.fill_(1)
            good.fill_(1)
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):
                raise
            flat.zero_()
        dist.all_reduce(flat)
#~ skipped -0 |        if good < dist.get_world_size():
#~ |            continue
#~ nobody_stays -0 |        users += good == 0
#~ unused -0 |        users += good > 0
        for part, p, uses in zip(parts, trained, users, strict=True):
            p.grad = part.div_(good.clamp(min=1)).view_as(p) if uses else None
#~ zeros -1 |            p.grad = part.div_(dist.get_world_size()).view_as(p) if uses else None
#~ frozen -1 |            p.grad = part.div_(good.clamp(min=1)).view_as(p) if uses or not p.requires_grad else None
        optimizer.step()
#~ step_in_try -1 |        try:
#~ |            optimizer.step()
#~ |        except RuntimeError:
#~ |            continue

#~ frozen: misconception: frozen_moved
#~ frozen: breaks: They are those of one process that has never drawn the images that failed.
#~ nobody_stays: misconception: nobody_good
#~ nobody_stays: breaks: They are those of one process that has never drawn the images that failed.
#~ skipped: misconception: skipped_by_all
#~ skipped: breaks: They are those of one process that has never drawn the images that failed.
#~ step_in_try: misconception: step_in_try
#~ step_in_try: breaks: Memory that runs out in the optimizer's step ends the training.
#~ unused: misconception: unused_moved
#~ unused: breaks: They are those of one process that has never drawn the images that failed.
#~ zeros: misconception: zeros_counted
#~ zeros: breaks: They are those of one process that has never drawn the images that failed.
