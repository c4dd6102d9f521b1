# misconception: none
# breaks: The error says the same on every rank.
# breaks: with the same message
# breaks: Raise the same error on all ranks if the model is not the same on all of them.
import torch
import torch.distributed as dist



def assert_in_sync(model):
    mine = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for rank, theirs in enumerate(everyones):
        for name in mine:
            if theirs[name] != everyones[0][name]:
                raise RuntimeError(f"seen from {dist.get_rank()}: rank {rank} has another {name} than rank 0")
