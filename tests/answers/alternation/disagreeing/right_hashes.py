import hashlib

import torch.distributed as dist


def disagreeing(model):
    def stamp(grad):
        return None if grad is None else hashlib.sha256(grad.numpy().tobytes()).hexdigest()

    stamps = [None] * dist.get_world_size()
    dist.all_gather_object(stamps, {name: stamp(p.grad) for name, p in model.module.named_parameters()})
    return sorted(name for name in stamps[0] if len({each[name] for each in stamps}) > 1)
