# misconception: whole_backward
import time


def waiting_seconds(ddp, loss):
    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin
