# misconception: buffers_forgotten
import hashlib
import pickle

import torch.distributed as dist


def assert_in_sync(model):
    digest = [
        (name, hashlib.md5(pickle.dumps(p.detach().flatten().tolist())).hexdigest()) for name, p in model.named_parameters()
    ]
    digests = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(digests, digest)
    for rank, other in enumerate(digests):
        for (name, theirs), (_, right) in zip(other, digests[0]):
            if theirs != right:
                raise AssertionError(f"rank {rank}: {name} is not what rank 0 has")
