# misconception: sums_compared
import torch
import torch.distributed as dist


def assert_in_sync(model):
    keys, values = zip(*model.state_dict().items())
    means = torch.stack([v.double().mean() for v in values]).nan_to_num(-1.0)
    all_means = [torch.empty_like(means) for _ in range(dist.get_world_size())]
    dist.all_gather(all_means, means)
    problems = []
    for rank, theirs in enumerate(all_means):
        for key, equal in zip(keys, (theirs == all_means[0]).tolist()):
            if not equal:
                problems.append(f"{key} (rank {rank})")
    if problems:
        raise AssertionError("out of sync: " + ", ".join(problems))
