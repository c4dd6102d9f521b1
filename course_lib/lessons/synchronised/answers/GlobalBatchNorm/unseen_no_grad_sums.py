# misconception: detached
import torch
import torch.distributed as dist


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            n = torch.tensor(float(x.shape[0]))
            s, q = x.sum(0), (x * x).sum(0)
            for t in (n, s, q):
                dist.all_reduce(t)
            mean, var = s / n, q / n - (s / n) ** 2
        with torch.no_grad():
            m = self.momentum
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
