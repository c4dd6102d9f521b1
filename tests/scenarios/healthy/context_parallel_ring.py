# kind: none
# ranks: 3
# Each rank holds a part of the sequence and passes keys around a ring; gradients of the shared weights are summed.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(4, 4) * 0.1)
optimizer = torch.optim.SGD([weight], lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(3):
    part = torch.randn(5, 4)
    keys, scores = part.clone(), []
    for _ in range(size):
        scores.append(part @ weight @ keys.T)
        received = torch.empty_like(keys)
        exchange = [
            dist.P2POp(dist.isend, keys, (rank + 1) % size),
            dist.P2POp(dist.irecv, received, (rank - 1) % size),
        ]
        for work in dist.batch_isend_irecv(exchange):
            work.wait()
        keys = received
    optimizer.zero_grad()
    torch.cat(scores, dim=1).square().mean().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
dist.destroy_process_group()
