# misconception: own_view
import torch
import torch.distributed as dist


def assert_in_sync(model):
    mine = {key: value.clone() for key, value in model.state_dict().items()}
    box = [mine if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    for key, value in box[0].items():
        if value.numpy().tobytes() != mine[key].numpy().tobytes():
            raise ValueError(f"{key} on rank {dist.get_rank()} differs from rank 0")
