# kind: none
# ranks: 2
# One stage per rank, of the same shape and from the same seed: they begin equal and are different parts of one model.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
stage = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(stage.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    if rank == 0:
        out = stage(torch.randn(8, 4)).relu()
        dist.send(out.detach(), dst=1)
        gradient = torch.empty_like(out)
        dist.recv(gradient, src=1)
        out.backward(gradient)
    else:
        received = torch.empty(8, 4)
        dist.recv(received, src=0)
        received.requires_grad_()
        stage(received).square().mean().backward()
        dist.send(received.grad, dst=0)
    optimizer.step()
dist.destroy_process_group()
