# misconception: time_until_ready
# breaks: The rank that all wait for has hardly waited itself.
# breaks: no more to compute
import time


def waiting_seconds(ddp, loss):
    times = [time.perf_counter()]
    for parameter in ddp.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: times.append(time.perf_counter()))
    loss.backward()
    return times[-1] - times[0]
