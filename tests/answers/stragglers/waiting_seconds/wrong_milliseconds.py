# misconception: none
# breaks: return how many seconds
# breaks: Seconds that this rank waits
import time


def waiting_seconds(ddp, loss):
    last = time.perf_counter()

    def note(_):
        nonlocal last
        last = time.perf_counter()

    for parameter in ddp.parameters():
        parameter.register_post_accumulate_grad_hook(note)
    loss.backward()
    return 1000 * (time.perf_counter() - last)
