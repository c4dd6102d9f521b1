# misconception: running_variance_biased
import torch
import torch.distributed as dist


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.detach().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    def forward(self, x):
        if not self.training:
            return super().forward(x)
        n = Sum.apply(torch.tensor(float(len(x))))
        mean = Sum.apply(x.sum(0)) / n
        var = Sum.apply(((x - mean) ** 2).sum(0)) / n
        self.running_mean += self.momentum * (mean.detach() - self.running_mean)
        self.running_var += self.momentum * (var.detach() - self.running_var)
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
