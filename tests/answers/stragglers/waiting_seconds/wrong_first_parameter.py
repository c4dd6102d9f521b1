# misconception: whole_backward
import time


def waiting_seconds(ddp, loss):
    ready = []
    first = next(ddp.parameters())
    hook = first.register_post_accumulate_grad_hook(lambda _: ready.append(time.perf_counter()))
    loss.backward()
    through = time.perf_counter()
    hook.remove()
    return through - ready[-1]
