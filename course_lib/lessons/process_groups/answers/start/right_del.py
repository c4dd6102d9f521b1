import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group(backend="gloo", init_method="env://")
#~ model_in_finally -1 |    dist.init_process_group("gloo")
    model = DistributedDataParallel(build())
    try:
        return train(model)
#~ barrier_when_done -1 |        result = train(model)
#~ |        dist.barrier()
#~ |        return result
    finally:
        del model
#~ model_in_finally -1
        dist.destroy_process_group()

#~ barrier_when_done: misconception: none
#~ model_in_finally: misconception: model_kept
#~ model_in_finally: breaks: The wrapped model is gone when its group is destroyed.
