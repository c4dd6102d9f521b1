# misconceptions: vanishes, overflows
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook


def half_hook(state, bucket):
    return fp16_compress_hook(None, bucket)
