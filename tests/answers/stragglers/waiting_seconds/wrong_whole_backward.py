# misconception: whole_backward
# breaks: The rank that all wait for has hardly waited itself.
# breaks: no more to compute
import time


def waiting_seconds(ddp, loss):
    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin
