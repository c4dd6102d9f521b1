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
#~ backward_alone -3 |        return gradient
#~ detached -14
#~ in_place -14


class GlobalBatchNorm(torch.nn.Module):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
#~ other_names -2 |        self.gamma = torch.nn.Parameter(torch.ones(features))
#~ |        self.beta = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
#~ eval_batch -1 |        mean, var = x.mean(0), x.var(0, correction=0)
        if self.training:
#~ eval_asks -2 |        if True:
            count = x.new_full((x.shape[1],), len(x))
            sums = torch.stack([x.sum(0), x.square().sum(0), count])
#~ variances_weighted -1 |            sums = torch.stack([x.sum(0), x.var(0, correction=0) * len(x), count])
            total, squares, n = SumOverRanks.apply(sums)
#~ detached -1 |            sums = sums.detach()
#~ |            dist.all_reduce(sums)
#~ |            total, squares, n = sums
#~ in_place -1 |            dist.all_reduce(sums)
#~ |            total, squares, n = sums
            mean = total / n
            var = squares / n - mean.square()
#~ means_averaged -5 |            sums = torch.stack([x.mean(0), x.square().mean(0)])
#~ |            mean, squares = SumOverRanks.apply(sums) / dist.get_world_size()
#~ |            var = squares - mean.square()
#~ |            n = torch.tensor(float(len(x)))
#~ |            dist.all_reduce(n)
#~ variances_averaged -5 |            sums = torch.stack([x.mean(0), x.var(0, correction=0)])
#~ |            mean, var = SumOverRanks.apply(sums) / dist.get_world_size()
#~ |            n = torch.tensor(float(len(x)))
#~ |            dist.all_reduce(n)
#~ variances_weighted -2 |            mean, var = total / n, squares / n
            with torch.no_grad():
#~ eval_asks -0 |                if not self.training:
#~ |                    self.momentum = 0.0
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var * n / (n - 1), self.momentum)
#~ biased -1 |                self.running_var.lerp_(var, self.momentum)
#~ running_local -2 |                self.running_mean.lerp_(x.mean(0), self.momentum)
#~ |                self.running_var.lerp_(x.var(0), self.momentum)
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias
#~ other_names -1 |        return (x - mean) / (var + self.eps).sqrt() * self.gamma + self.beta

#~ backward_alone: misconception: own_gradient
#~ backward_alone: breaks: Training goes on like that.
#~ backward_alone: breaks: So are the gradients.
#~ biased: misconception: running_variance_biased
#~ biased: breaks: The running statistics are those of one process, on every rank.
#~ detached: misconception: detached
#~ detached: breaks: So are the gradients.
#~ eval_asks: misconception: batch_in_eval_mode
#~ eval_asks: breaks: In eval mode the running statistics are used, and one rank alone may call it.
#~ eval_batch: misconception: batch_in_eval_mode
#~ eval_batch: breaks: In eval mode the running statistics are used, and one rank alone may call it.
#~ in_place: misconception: own_gradient
#~ in_place: breaks: So are the gradients.
#~ means_averaged: misconception: mean_of_means
#~ means_averaged: breaks: The outputs are those of one process with the samples of all ranks.
#~ other_names: misconception: none
#~ running_local: misconception: running_mean_local
#~ running_local: breaks: The running statistics are those of one process, on every rank.
#~ variances_averaged: misconception: mean_of_variances
#~ variances_averaged: breaks: The outputs are those of one process with the samples of all ranks.
#~ variances_weighted: misconception: mean_of_variances
#~ variances_weighted: breaks: The outputs are those of one process with the samples of all ranks.
