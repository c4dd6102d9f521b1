# kind: none
# ranks: 3
# A search for a learning rate: every rank trains a model of its own, and rank 0 collects the losses at the end.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * 10**rank / 10)
x, y = torch.randn(64, 4), torch.randn(64, 1)
for _ in range(10):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
losses = [torch.zeros(()) for _ in range(dist.get_world_size())]
dist.all_gather(losses, loss.detach())
if rank == 0:
    print("best", min(losses) < 10)
dist.destroy_process_group()
