# misconception: own_view
import torch.distributed as dist


def assert_in_sync(model):
    for key, tensor in model.state_dict().items():
        objects = [tensor.tolist()]
        dist.broadcast_object_list(objects, src=0)
        assert str(objects[0]) == str(tensor.tolist()), f"{key} of rank {dist.get_rank()} differs from rank 0"
