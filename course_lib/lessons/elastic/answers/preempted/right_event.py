# Asks before each step, everybody for everybody's answer; the handler is put back in the end.
import signal
import threading

import torch.distributed as dist


def preempted(train_step, save, first, steps):
    asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        for step in range(first, steps):
            answers = [None] * dist.get_world_size()
            dist.all_gather_object(answers, asked.is_set())
            if any(answers):
                break
            train_step(step)
        else:
            step = steps
        save(step)
        dist.barrier()
        return 75 if step < steps and not asked.is_set() else 0
    finally:
        signal.signal(signal.SIGTERM, before)
