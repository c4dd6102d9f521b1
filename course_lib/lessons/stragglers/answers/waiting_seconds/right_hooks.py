import time
#~ durations_compared -0 |
#~ |import torch
#~ |import torch.distributed as dist
#~ longest_of_all -0 |
#~ |import torch
#~ |import torch.distributed as dist


def waiting_seconds(ddp, loss):
    last = time.perf_counter()
#~ durations_compared -1 |    last = begin = time.perf_counter()

    def note(_):
        nonlocal last
        last = time.perf_counter()

#~ time_until_ready -6 |    times = [time.perf_counter()]
    for parameter in ddp.parameters():
        parameter.register_post_accumulate_grad_hook(note)
#~ first_parameter -8 |    ready = []
#~ |    first = next(ddp.parameters())
#~ |    hook = first.register_post_accumulate_grad_hook(lambda _: ready.append(time.perf_counter()))
#~ time_until_ready -1 |        parameter.register_post_accumulate_grad_hook(lambda _: times.append(time.perf_counter()))
#~ whole_backward -8 |    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - last
#~ durations_compared -1 |    longest = torch.tensor(last - begin)
#~ |    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
#~ |    return longest.item() - (last - begin)
#~ first_parameter -1 |    through = time.perf_counter()
#~ |    hook.remove()
#~ |    return through - ready[-1]
#~ longest_of_all -1 |    waited = torch.tensor(time.perf_counter() - last)
#~ |    dist.all_reduce(waited, op=dist.ReduceOp.MAX)
#~ |    return waited.item()
#~ milliseconds -1 |    return 1000 * (time.perf_counter() - last)
#~ time_until_ready -1 |    return times[-1] - times[0]
#~ whole_backward -1 |    return time.perf_counter() - begin

#~ durations_compared: misconception: none
#~ durations_compared: breaks: Ranks that stand waiting for a late one say how long.
#~ first_parameter: misconception: whole_backward
#~ longest_of_all: misconception: none
#~ milliseconds: misconception: none
#~ time_until_ready: misconception: time_until_ready
#~ time_until_ready: breaks: The rank that all wait for has hardly waited itself.
#~ whole_backward: misconception: whole_backward
#~ whole_backward: breaks: The rank that all wait for has hardly waited itself.
