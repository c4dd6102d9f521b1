# kind: rank_left
# culprits: 1
# ranks: 2
# Power iteration over rows of all ranks. Rank 1 is content earlier, and its last all_reduce meets one in the loop.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
matrix = torch.diag(torch.tensor([3.0, 1.0, 0.5])) + 0.01 * rank
vector = torch.ones(3)
for _ in range(10):
    product = matrix @ vector
    dist.all_reduce(product)
    product /= product.norm()
    change = (product - vector).abs().max()
    vector = product
    if change < 0.02 + 0.2 * rank:
        break
#~ mended -2 |    dist.all_reduce(change, dist.ReduceOp.MAX)
#~ |    if change < 0.02:
#~ |        break
residual = matrix @ vector - 3 * vector
dist.all_reduce(residual)
dist.destroy_process_group()
