# misconception: local_statistics
import torch
import torch.distributed as dist


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        mean, var, n = x.mean(dim=0), x.var(dim=0, unbiased=False), len(x)
        with torch.no_grad():
            m = self.momentum
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
