# kind: none
# ranks: 2
# Population based training: each rank trains its own settings; now and then the worse copies the better one.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * (1 + rank))
for step in range(12):
    optimizer.zero_grad()
    loss = (model(torch.randn(32, 4)) - 1).square().mean()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        losses = [torch.zeros(()) for _ in range(2)]
        dist.all_gather(losses, loss.detach())
        best = int(torch.stack(losses).argmin())
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=best)
        optimizer.param_groups[0]["lr"] *= 1.2 if rank == best else 0.8
dist.destroy_process_group()
