# kind: parameters_outside
# culprits: 2 3
# ranks: 4
# Gradients are averaged by hand in pairs, but everybody passes the first pair's group.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=pairs[0])
        parameter.grad /= 2
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
