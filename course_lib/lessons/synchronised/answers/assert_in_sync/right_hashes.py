import hashlib

import torch.distributed as dist


def assert_in_sync(model):
    hashes = {n: hashlib.sha256(t.cpu().numpy().tobytes()).hexdigest() for n, t in model.state_dict().items()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, hashes)
    problems = []
    for name in hashes:
        ranks = [r for r, theirs in enumerate(everyones) if theirs[name] != everyones[0][name]]
        if ranks:
            problems.append(f"{name}: ranks {ranks}")
    assert not problems, "not in sync with rank 0: " + ", ".join(problems)
