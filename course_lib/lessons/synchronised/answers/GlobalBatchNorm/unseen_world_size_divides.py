# misconception: mean_of_means
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
        world = dist.get_world_size()
        n = Sum.apply(torch.tensor(float(len(x))))
        mean = Sum.apply(x.mean(0)) / world
        var = Sum.apply((x**2).mean(0)) / world - mean**2
        with torch.no_grad():
            m = self.momentum
            self.running_mean.copy_((1 - m) * self.running_mean + m * mean)
            self.running_var.copy_((1 - m) * self.running_var + m * var * n / (n - 1))
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
