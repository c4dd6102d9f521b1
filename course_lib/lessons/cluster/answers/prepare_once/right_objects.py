# The words of the exception travel, too.
import os
from datetime import timedelta

import torch.distributed as dist


def prepare_once(prepare, timeout):
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
    mine = None
    if os.environ["LOCAL_RANK"] == "0":
        try:
            prepare()
        except BaseException as error:
            mine = f"machine {os.environ['GROUP_RANK']}: {error!r}"
    said = [None] * dist.get_world_size()
    dist.all_gather_object(said, mine, group=group)
    if any(said):
        raise RuntimeError("; ".join(filter(None, said)))
