# misconception: timeout_ignored
# breaks: The group's timeout is the one asked for.
# breaks: with a timeout of that many seconds
import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo")


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
