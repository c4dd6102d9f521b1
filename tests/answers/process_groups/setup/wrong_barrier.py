# misconception: waits_at_the_end
# breaks: cleanup() waits for nobody: a rank that has failed can call it alone.
# breaks: after a failure
# breaks: It must come back.
# breaks: A rank that has failed calls `cleanup()` alone, while the others are elsewhere.
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
