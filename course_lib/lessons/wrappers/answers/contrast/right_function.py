import torch
import torch.distributed as dist
import torch.distributed.nn.functional
from torch.nn.functional import cross_entropy, pad


def everyones(x, sizes):
    """Filled up to the same length, gathered, and cut again."""
    longest = pad(x.contiguous(), (0, 0, 0, max(sizes) - len(x)))
    parts = [torch.empty_like(longest) for _ in sizes]
    dist.all_gather(parts, longest)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
#~ padding_kept -1 |    return torch.cat(parts)


class FromAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sizes):
        ctx.sizes = sizes
        return everyones(x, sizes)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
#~ backward_own -1
#~ backward_mean -1 |        dist.all_reduce(gradient, dist.ReduceOp.AVG)
        return gradient.split(ctx.sizes)[dist.get_rank()], None
#~ padding_kept -1 |        return gradient.chunk(len(ctx.sizes))[dist.get_rank()][: ctx.sizes[dist.get_rank()]], None
#~ chunks -1 |        return gradient.chunk(len(ctx.sizes))[dist.get_rank()], None


def contrast(one, other, temperature, sizes):
    one, other = FromAll.apply(one, sizes), FromAll.apply(other, sizes)
#~ first_cut -1 |    one, other = everyones(one, sizes), FromAll.apply(other, sizes)
#~ second_cut -1 |    one, other = FromAll.apply(one, sizes), everyones(other, sizes)
#~ both_cut -1 |    one, other = everyones(one, sizes), everyones(other, sizes)
#~ all_detached -1 |    one, other, temperature = everyones(one, sizes), everyones(other, sizes), temperature.detach()
#~ own_samples -1
#~ shortest -1 |    one, other = (FromAll.apply(x[: min(sizes)], [min(sizes)] * len(sizes)) for x in (one, other))
#~ one_batch -1 |    both = FromAll.apply(torch.cat([one, other]), [2 * size for size in sizes])
#~ |    one, other = both.chunk(2)
#~ loss_summed -1
    scores, places = one @ other.T / temperature, torch.arange(len(one))
#~ temperature_times -1 |    scores, places = one @ other.T * temperature, torch.arange(len(one))
#~ embeddings_often -1 |    often = len(sizes) * one - (len(sizes) - 1) * one.detach()
#~ |    other = len(sizes) * other - (len(sizes) - 1) * other.detach()
#~ |    scores, places = often @ other.T / temperature, torch.arange(len(one))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
#~ times_ranks -1 |    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2 * len(sizes)
#~ divided_by_ranks -1 |    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2 / len(sizes)
#~ rows_only -1 |    return cross_entropy(scores, places)
#~ columns_only -1 |    return cross_entropy(scores.T, places)
#~ loss_summed -1 |    loss = (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
#~ |    return torch.distributed.nn.functional.all_reduce(loss) / len(sizes)
#~ not_halved -1 |    return cross_entropy(scores, places) + cross_entropy(scores.T, places)
#~ number -1 |    return ((cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2).item()
#~ value_detached -1 |    loss = (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
#~ |    return loss - loss.detach()

#~ all_detached: misconception: cut
#~ backward_mean: misconception: divided
#~ backward_own: misconception: divided
#~ both_cut: misconception: cut
#~ both_cut: breaks: Every parameter gets a gradient on every rank.
#~ chunks: misconception: equal_sizes
#~ columns_only: misconception: one_direction
#~ divided_by_ranks: misconception: divided
#~ embeddings_often: misconception: counted_often
#~ first_cut: misconception: cut
#~ not_halved: misconception: none
#~ number: misconception: none
#~ loss_summed: misconception: own_samples
#~ one_batch: misconception: wrong_positives
#~ shortest: misconception: left_out
#~ own_samples: misconception: own_samples
#~ own_samples: breaks: The averaged gradients are those of one process with the samples of all ranks.
#~ padding_kept: misconception: padding_kept
#~ rows_only: misconception: one_direction
#~ second_cut: misconception: cut
#~ temperature_times: misconception: none
#~ times_ranks: misconception: counted_often
#~ value_detached: misconception: none
#~ value_detached: breaks: The mean of the ranks' losses is the loss of one process.
