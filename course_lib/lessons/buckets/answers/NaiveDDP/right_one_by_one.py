import torch
import torch.distributed as dist


class NaiveDDP(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            dist.broadcast(parameter.detach(), src=0)
#~ broadcast_into_a_copy -1 |            dist.broadcast(parameter.detach().clone(), src=0)
#~ no_broadcast -2
#~ mean_of_all_starts -1 |            dist.all_reduce(parameter.detach(), op=dist.ReduceOp.AVG)
#~ trainable_only -1 |            if parameter.requires_grad:
#~ |                dist.broadcast(parameter.detach(), src=0)

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def finish_gradient_synchronization(self):
#~ other_name -1 |    def synchronize_gradients(self):
        for parameter in self.module.parameters():
            if parameter.grad is not None:
#~ none_of_unused -1 |            if parameter.requires_grad:
                dist.all_reduce(parameter.grad)
#~ reduce -1 |                dist.reduce(parameter.grad, dst=0)
                parameter.grad /= dist.get_world_size()
#~ broadcast_gradient -2 |                dist.broadcast(parameter.grad, src=0)
#~ copy_reduced -2 |                total = parameter.grad.clone()
#~ |                dist.all_reduce(total)
#~ |                total /= dist.get_world_size()
#~ divided_by_layer -1 |        for layer in self.module.modules():
#~ |            for parameter in layer.parameters(recurse=False):
#~ |                if parameter.grad is not None:
#~ |                    parameter.grad /= dist.get_world_size()
#~ none -3 |            dist.all_reduce(parameter.grad)
#~ |            parameter.grad /= dist.get_world_size()
#~ nothing_sent -2 |                parameter.grad = parameter.grad.clone()
#~ sum -1

#~ broadcast_gradient: misconception: gradient_of_rank_0
#~ mean_of_all_starts: misconception: none
#~ broadcast_gradient: breaks: After three steps all ranks have the weights of one process that trained on everything.
#~ broadcast_gradient: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ broadcast_into_a_copy: misconception: not_broadcast
#~ broadcast_into_a_copy: breaks: When it is made, all ranks get rank 0's parameters, frozen ones too.
#~ copy_reduced: misconception: not_reduced
#~ copy_reduced: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ divided_by_layer: misconception: none
#~ divided_by_layer: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ no_broadcast: misconception: not_broadcast
#~ no_broadcast: breaks: When it is made, all ranks get rank 0's parameters, frozen ones too.
#~ none: misconception: gradient_is_none
#~ none_of_unused: misconception: gradient_is_none
#~ nothing_sent: misconception: not_reduced
#~ nothing_sent: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ other_name: misconception: none
#~ reduce: misconception: only_rank_0_averages
#~ reduce: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ sum: misconception: summed
#~ sum: breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
#~ trainable_only: misconception: frozen_not_broadcast
#~ trainable_only: breaks: When it is made, all ranks get rank 0's parameters, frozen ones too.
