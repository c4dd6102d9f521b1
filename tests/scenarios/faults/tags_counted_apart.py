# kind: different_tags
# culprits: -
# ranks: 2
# Messages carry the number of their micro-batch, and one stage counts a batch that was never sent.
import torch
import torch.distributed as dist

MICRO, WIDTH = 3, 8


def first(stage, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(MICRO):
            h = stage(torch.randn(4, 6))
            dist.send(h.detach(), dst=1, tag=step * MICRO + part)
            back = torch.empty_like(h)
            dist.recv(back, src=1, tag=step * MICRO + part)
            h.backward(back)
        optimizer.step()


def second(stage, optimizer, steps):
    number = 0
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(MICRO):
            h = torch.empty(4, WIDTH)
            dist.recv(h, src=0, tag=number)
            h.requires_grad_()
            stage(h).square().mean().backward()
            dist.send(h.grad, dst=0, tag=number)
            number += 1
        optimizer.step()
        if step == 3:
            number += 1  # the batch that is kept for validation
#~ mended -1 |            pass


dist.init_process_group("gloo")
torch.manual_seed(0)
run, stage = [(first, torch.nn.Linear(6, WIDTH)), (second, torch.nn.Linear(WIDTH, 1))][dist.get_rank()]
run(stage, torch.optim.SGD(stage.parameters(), lr=0.05), steps=6)
dist.destroy_process_group()
