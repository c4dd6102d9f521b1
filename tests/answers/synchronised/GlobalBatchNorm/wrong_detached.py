# misconception: detached
# breaks: So are the gradients.
# breaks: outputs, gradients and running statistics
import torch
import torch.distributed as dist


class GlobalBatchNorm(torch.nn.Module):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            count = x.new_full((x.shape[1],), len(x))
            sums = torch.stack([x.sum(0), x.square().sum(0), count])
            sums = sums.detach()
            dist.all_reduce(sums)
            total, squares, n = sums
            mean = total / n
            var = squares / n - mean.square()
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var * n / (n - 1), self.momentum)
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias
