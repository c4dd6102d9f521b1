# misconception: own_gradient
import torch
import torch.distributed as dist


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        n = torch.tensor([float(len(x))])
        dist.all_reduce(n)

        def over_ranks(t):
            total = t.detach().clone()
            dist.all_reduce(total)
            return t + (total - t.detach())

        mean = over_ranks(x.sum(0)) / n
        var = over_ranks(((x - mean) ** 2).sum(0)) / n
        with torch.no_grad():
            m = self.momentum
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
