# misconception: generator_forgotten
# breaks: The same seed gives the same weights and the same random numbers again.
# breaks: a second call with the same seed gives the same weights and the same numbers again
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    model = build_model()
    torch.manual_seed(1000 * seed + dist.get_rank())
    return model
