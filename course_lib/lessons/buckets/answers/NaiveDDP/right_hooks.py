import torch
import torch.distributed as dist


class NaiveDDP(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.add_module("inner", module)
        self.works = []
        with torch.no_grad():
            for p in module.parameters():
                if dist.get_rank() != 0:
                    p.zero_()
                dist.all_reduce(p)
                if p.requires_grad:
                    p.register_post_accumulate_grad_hook(self.hook)

    def hook(self, p):
        p.grad.div_(dist.get_world_size())
        self.works.append(dist.all_reduce(p.grad, async_op=True))

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

    def finish_gradient_synchronization(self):
        while self.works:
            self.works.pop().wait()
