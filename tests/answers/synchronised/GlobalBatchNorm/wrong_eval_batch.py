# misconception: batch_in_eval_mode
# breaks: In eval mode the running statistics are used, and one rank alone may call it.
# breaks: In eval mode it uses the running statistics
import torch
import torch.distributed as dist


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class GlobalBatchNorm(torch.nn.Module):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        mean, var = x.mean(0), x.var(0, correction=0)
        if self.training:
            count = x.new_full((x.shape[1],), len(x))
            sums = torch.stack([x.sum(0), x.square().sum(0), count])
            total, squares, n = SumOverRanks.apply(sums)
            mean = total / n
            var = squares / n - mean.square()
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var * n / (n - 1), self.momentum)
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias
