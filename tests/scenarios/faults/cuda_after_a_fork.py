# kind: cuda_in_a_fork
# culprits: -
# A process that has used CUDA is forked; raised here as torch raises it, for machines without a GPU.
# ranks: 2
import torch.distributed as dist


def lazy_init():
    raise RuntimeError(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
        "you must use the 'spawn' start method"
    )


dist.init_process_group("gloo")
lazy_init()
