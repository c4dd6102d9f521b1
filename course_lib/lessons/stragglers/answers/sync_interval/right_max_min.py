import math
import statistics
#~ average_rank -1 |from statistics import median
#~ bound_ignored -1 |from statistics import median
#~ rank_0_decides -1 |from statistics import median
#~ reduction_left_out -1 |from statistics import median
#~ rounded_down -2 |from statistics import median
#~ waiting_and_rounding -1 |from statistics import median
#~ waiting_counted -1 |from statistics import median
#~ warm_up_counted -1 |from statistics import mean

import torch
import torch.distributed as dist
#~ own_measurements -4 |from statistics import median


def sync_interval(step_seconds, reduce_seconds, share, longest):
    found = torch.tensor([statistics.median(step_seconds), -statistics.median(reduce_seconds)], dtype=torch.double)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    step, reduction = found[0].item(), -found[1].item()
    return max(1, min(longest, math.ceil(reduction * (1 - share) / (share * step))))
#~ average_and_warm_up -4 |    both = [sum(part) / len(part) for part in (step_seconds, reduce_seconds)]
#~ |    mean = torch.tensor(both, dtype=torch.float64)
#~ |    dist.all_reduce(mean)
#~ |    step, reduction = (mean / dist.get_world_size()).tolist()
#~ |    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
#~ average_step -2 |    mean = torch.tensor(statistics.median(step_seconds), dtype=torch.double)
#~ |    dist.all_reduce(mean)
#~ |    step, reduction = mean.item() / dist.get_world_size(), -found[1].item()
#~ |    return max(1, min(longest, math.ceil(reduction * (1 - share) / (share * step))))
#~ fastest -3 |    dist.all_reduce(found, op=dist.ReduceOp.MIN)
#~ |    step = found[0].clone()
#~ |    found[1] = -statistics.median(reduce_seconds)
#~ |    dist.all_reduce(found, op=dist.ReduceOp.MAX)
#~ |    step, reduction = step.item(), -found[1].item()
#~ |    return max(1, min(longest, math.ceil(reduction * (1 - share) / (share * step))))
#~ waiting_mean -2 |    mean = torch.tensor(statistics.median(reduce_seconds), dtype=torch.double)
#~ |    dist.all_reduce(mean)
#~ |    step, reduction = found[0].item(), mean.item() / dist.get_world_size()
#~ |    return max(1, min(longest, math.ceil(reduction * (1 - share) / (share * step))))
#~ warm_up_longest -4 |    found = torch.tensor([max(step_seconds), -statistics.median(reduce_seconds)], dtype=torch.double)
#~ |    dist.all_reduce(found, op=dist.ReduceOp.MAX)
#~ |    step, reduction = found[0].item(), -found[1].item()
#~ |    return max(1, min(longest, math.ceil(reduction * (1 - share) / (share * step))))
#~ average_rank -4 |    mean = torch.tensor([median(step_seconds), median(reduce_seconds)], dtype=torch.float64)
#~ |    dist.all_reduce(mean)
#~ |    step, reduction = (mean / dist.get_world_size()).tolist()
#~ |    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
#~ bound_ignored -4 |    step = torch.tensor(median(step_seconds), dtype=torch.float64)
#~ |    reduction = torch.tensor(median(reduce_seconds), dtype=torch.float64)
#~ |    dist.all_reduce(step, op=dist.ReduceOp.MAX)
#~ |    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
#~ |    return max(1, math.ceil(reduction * (1 - share) / (share * step)))
#~ longest -1 |    return longest if reduction > 0 else 1
#~ not_rounded -1 |    return max(1, min(longest, reduction * (1 - share) / (share * step)))
#~ own_measurements -4 |    needed = median(reduce_seconds) * (1 - share) / (share * median(step_seconds))
#~ |    return min(longest, max(1, math.ceil(needed)))
#~ rank_0_decides -4 |    needed = median(reduce_seconds) * (1 - share) / (share * median(step_seconds))
#~ |    interval = torch.tensor(min(longest, max(1, math.ceil(needed))))
#~ |    dist.broadcast(interval, src=0)
#~ |    return interval
#~ reduction_left_out -4 |    step = torch.tensor(median(step_seconds), dtype=torch.float64)
#~ |    reduction = torch.tensor(median(reduce_seconds), dtype=torch.float64)
#~ |    dist.all_reduce(step, op=dist.ReduceOp.MAX)
#~ |    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
#~ |    return min(longest, max(1, math.ceil(reduction / (share * step))))
#~ rounded_down -4 |    step = torch.tensor(median(step_seconds), dtype=torch.float64)
#~ |    reduction = torch.tensor(median(reduce_seconds), dtype=torch.float64)
#~ |    dist.all_reduce(step, op=dist.ReduceOp.MAX)
#~ |    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
#~ |    return min(longest, max(1, int(reduction * (1 - share) / (share * step))))
#~ waiting_and_rounding -4 |    slowest = torch.tensor([median(step_seconds), median(reduce_seconds)], dtype=torch.float64)
#~ |    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
#~ |    step, reduction = slowest.tolist()
#~ |    return min(longest, max(1, math.floor(reduction * (1 - share) / (share * step))))
#~ waiting_counted -4 |    slowest = torch.tensor([median(step_seconds), median(reduce_seconds)], dtype=torch.float64)
#~ |    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
#~ |    step, reduction = slowest.tolist()
#~ |    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
#~ warm_up_counted -4 |    step = torch.tensor(mean(step_seconds), dtype=torch.float64)
#~ |    reduction = torch.tensor(mean(reduce_seconds), dtype=torch.float64)
#~ |    dist.all_reduce(step, op=dist.ReduceOp.MAX)
#~ |    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
#~ |    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
#~ zero -1 |    return min(longest, math.ceil(reduction * (1 - share) / (share * step)))

#~ average_rank: misconception: average_rank
#~ average_rank: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ bound_ignored: misconception: bound_ignored
#~ bound_ignored: breaks: It is between 1 and `longest`.
#~ longest: misconception: none
#~ longest: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ not_rounded: misconception: none
#~ own_measurements: misconception: own_measurements
#~ own_measurements: breaks: All ranks return the same interval.
#~ rank_0_decides: misconception: rank_0_decides
#~ rank_0_decides: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ reduction_left_out: misconception: reduction_left_out
#~ reduction_left_out: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ rounded_down: misconception: rounded_down
#~ rounded_down: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ waiting_and_rounding: misconceptions: waiting_counted, rounded_down
#~ waiting_and_rounding: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ waiting_counted: misconception: waiting_counted
#~ waiting_counted: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ warm_up_counted: misconception: warm_up_counted
#~ warm_up_counted: breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
#~ zero: misconception: none
#~ zero: breaks: It is between 1 and `longest`.
#~ average_and_warm_up: misconceptions: average_rank, warm_up_counted
#~ average_step: misconception: average_rank
#~ fastest: misconception: average_rank
#~ waiting_mean: misconception: waiting_counted
#~ warm_up_longest: misconception: warm_up_counted
