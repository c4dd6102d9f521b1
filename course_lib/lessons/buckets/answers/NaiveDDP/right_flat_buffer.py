import torch
import torch.distributed as dist


class NaiveDDP(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        state = [module.state_dict()]
        dist.broadcast_object_list(state, src=0)
        module.load_state_dict(state[0])

    def forward(self, x):
        return self.module(x)

    def finish_gradient_synchronization(self):
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
        offset = 0
        for g in gradients:
            g.copy_(flat[offset : offset + g.numel()].view_as(g))
            offset += g.numel()
