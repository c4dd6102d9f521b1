# misconception: gradient_of_rank_0
# breaks: After three steps all ranks have the weights of one process that trained on everything.
# breaks: After finish_gradient_synchronization(), every .grad is the mean over all ranks, in every step.
# breaks: After `finish_gradient_synchronization()`, every gradient is the mean over the ranks.
import torch
import torch.distributed as dist


class NaiveDDP(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            dist.broadcast(parameter.detach(), src=0)

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def finish_gradient_synchronization(self):
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                dist.broadcast(parameter.grad, src=0)
