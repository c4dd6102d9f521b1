import traceback
#~ device_ids -1 |import os
#~ gpus_counted -1 |import os
#~ local_rank -1 |import os
#~ machine_size -1 |import os
#~ option -1 |import argparse
#~ |import os

#~ gpus_counted -0 |import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
#~ machine_size -0 |    os.environ["WORLD_SIZE"] = str(2 * int(os.environ["WORLD_SIZE"]))
    dist.init_process_group("gloo")
#~ gpus_counted -1 |    rank = int(os.environ["RANK"])
#~ |    dist.init_process_group("gloo", rank=rank, world_size=max(1, torch.cuda.device_count()))
#~ local_rank -1 |    rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
#~ |    dist.init_process_group("gloo", rank=rank, world_size=size)
#~ option -1 |    parser = argparse.ArgumentParser()
#~ |    parser.add_argument("--local_rank", type=int, default=0)
#~ |    rank = parser.parse_args().local_rank
#~ |    dist.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    try:
        return train(DistributedDataParallel(build()))
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise
#~ device_ids -4 |        return train(DistributedDataParallel(build(), device_ids=[int(os.environ["LOCAL_RANK"])]))
#~ gpus_counted -3
#~ local_rank -3
#~ machine_size -3
#~ option -3
    finally:
        dist.destroy_process_group()

#~ device_ids: misconception: device_ids_on_cpu
#~ gpus_counted: misconception: gpus_counted
#~ local_rank: misconception: local_rank_as_rank
#~ machine_size: misconception: gpus_counted
#~ option: misconception: option_not_given
