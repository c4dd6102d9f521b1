import hashlib

import torch.distributed as dist


def disagreeing(model):
    def stamp(grad):
        return None if grad is None else hashlib.sha256(grad.numpy().tobytes()).hexdigest()
#~ built_in_hash -1 |        return None if grad is None else hash(grad.numpy().tobytes())
#~ rough_sums -1 |        return None if grad is None else round(grad.double().sum().item(), 3)
#~ set_of_tensors -1 |        return None if grad is None else grad.clone()
#~ sums -1 |        return None if grad is None else grad.double().sum().item()

    stamps = [None] * dist.get_world_size()
    dist.all_gather_object(stamps, {name: stamp(p.grad) for name, p in model.module.named_parameters()})
    return sorted(name for name in stamps[0] if len({each[name] for each in stamps}) > 1)
#~ any_none -1 |    return sorted(name for name in stamps[0] if len({each[name] for each in stamps} - {None}) != 1)
#~ first_and_last -1 |    return sorted(name for name in stamps[0] if stamps[0][name] != stamps[-1][name])

#~ any_none: misconception: none
#~ built_in_hash: misconception: no_values
#~ first_and_last: misconception: none
#~ rough_sums: misconception: only_norms
#~ set_of_tensors: misconception: no_values
#~ sums: misconception: only_norms
