# misconceptions: detached, mean_of_means
# breaks: The outputs are those of one process with the samples of all ranks.
import torch
import torch.distributed as dist


class GlobalBatchNorm(torch.nn.BatchNorm1d):
    """Moments averaged over the ranks in place: no gradient comes back through them."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        moments = torch.stack([x.mean(0), x.square().mean(0)]).detach()
        dist.all_reduce(moments, op=dist.ReduceOp.AVG)
        mean, var = moments[0], moments[1] - moments[0].square()
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var, self.momentum)
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias
