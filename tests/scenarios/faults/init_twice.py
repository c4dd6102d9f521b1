# kind: initialized_twice
# culprits: -
# ranks: 2
# Two parts of the program both set up the process group.
import torch.distributed as dist


def setup():
    dist.init_process_group("gloo")
#~ mended -1 |    if not dist.is_initialized():
#~ |        dist.init_process_group("gloo")


class Trainer:
    def __init__(self):
        setup()


setup()
Trainer()
dist.destroy_process_group()
