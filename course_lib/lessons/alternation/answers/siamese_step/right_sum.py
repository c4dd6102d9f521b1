#~ first_without_gradient -0 |import torch
#~ loss_after -0 |import torch
#~ one_branch -0 |import torch
import torch.distributed as dist


#~ local_loss -3
def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).square().sum(1)
#~ first_without_gradient -1 |    with torch.no_grad():
#~ |        anchor = model(first)
#~ |    gap = (anchor - model(second)).square().sum(1)
#~ mean_square -1 |    gap = (model(first) - model(second)).square().mean(1)
#~ module -1 |    net = model.module  # "two forwards through DDP do not work"
#~ |    gap = (net(first) - net(second)).square().sum(1)
#~ not_squared -1 |    gap = (model(first) - model(second)).norm(dim=1)
#~ one_branch -1 |    with torch.no_grad():
#~ |        other = model(second)
#~ |    gap = (model(first) - other).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
#~ never_zero -1 |    loss = (same * gap + (1 - same) * (1 - gap)).mean()
#~ sum_of_pairs -1 |    loss = (same * gap + (1 - same) * (1 - gap).relu()).sum()
#~ two_backwards -1 |    pull = (same * gap).mean()
#~ |    push = ((1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
#~ reduced_twice -0 |    for parameter in model.parameters():
#~ |        dist.all_reduce(parameter.grad)
#~ two_backwards -1 |    pull.backward(retain_graph=True)
#~ |    push.backward()
    optimizer.step()
    total = loss.detach().clone()
#~ loss_after -1 |    with torch.no_grad():
#~ |        gap = (model.module(first) - model.module(second)).square().sum(1)
#~ |        total = (same * gap + (1 - same) * (1 - gap).relu()).mean()
#~ module -1 |    total = loss.detach()
#~ one_branch -1 |    total = loss.detach()
#~ reduced_twice -1 |    total = loss.detach()
#~ two_backwards -1 |    total = (pull + push).detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
#~ local_loss -3 |    return loss.item()

#~ first_without_gradient: misconception: one_branch_detached
#~ first_without_gradient: breaks: The weights are those of one process that trains on the pairs of all ranks.
#~ local_loss: misconception: local_loss
#~ local_loss: breaks: Every rank returns the mean loss over the pairs of all ranks.
#~ loss_after: misconception: none
#~ mean_square: misconception: none
#~ mean_square: breaks: Every rank returns the mean loss over the pairs of all ranks.
#~ module: misconception: around_the_wrapper
#~ module: breaks: All ranks end with the same weights.
#~ never_zero: misconception: none
#~ not_squared: misconception: distance_not_squared
#~ not_squared: breaks: Every rank returns the mean loss over the pairs of all ranks.
#~ one_branch: misconception: one_branch_detached
#~ one_branch: breaks: The weights are those of one process that trains on the pairs of all ranks.
#~ reduced_twice: misconception: reduced_twice
#~ reduced_twice: breaks: The weights are those of one process that trains on the pairs of all ranks.
#~ sum_of_pairs: misconception: none
#~ sum_of_pairs: breaks: The weights are those of one process that trains on the pairs of all ranks.
#~ two_backwards: misconception: two_backwards
#~ two_backwards: breaks: All ranks end with the same weights.
