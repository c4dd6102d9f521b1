import torch
import torch.distributed as dist



def assert_in_sync(model):
#~ rank_0_only -0 |    everyones = [None] * dist.get_world_size()
    mine = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
#~ allclose -1
#~ floats_only -1 |    mine = {n: t.numpy().tobytes() for n, t in model.state_dict().items() if t.is_floating_point()}
#~ hashed -1 |    mine = {name: hash(tensor.numpy().tobytes()) for name, tensor in model.state_dict().items()}
#~ nan -1
#~ first_numbers -1 |    mine = {name: str(tensor.flatten()[:1].tolist()) for name, tensor in model.state_dict().items()}
#~ one_left_out -1 |    mine = {name: t.numpy().tobytes() for name, t in list(model.state_dict().items())[:-1]}
#~ norms -1 |    mine = {name: f"{tensor.float().norm().item():.4f}" for name, tensor in model.state_dict().items()}
#~ parameters_only -1 |    mine = {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}
#~ sums -1 |    mine = {name: tensor.double().sum().item() for name, tensor in model.state_dict().items()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for rank, theirs in enumerate(everyones):
        for name in mine:
#~ floats_only -2 |    for name in mine:
#~ |        for rank, theirs in enumerate(everyones):
#~ norms -2 |    for name in mine:
#~ |        for rank, theirs in enumerate(everyones):
#~ numbers -1 |        for number, name in enumerate(mine):
#~ parameters_only -2 |    for name in mine:
#~ |        for rank, theirs in enumerate(everyones):
            if theirs[name] != everyones[0][name]:
                raise RuntimeError(f"rank {rank} has another {name} than rank 0")
#~ allclose -5 |    dist.all_gather_object(everyones, model.state_dict())
#~ |    for name, right in everyones[0].items():
#~ |        for rank, theirs in enumerate(everyones):
#~ |            if not torch.allclose(theirs[name], right, equal_nan=True):
#~ |                raise AssertionError(f"{name} of rank {rank}")
#~ floats_only -1 |                raise AssertionError(f"{name} of rank {rank}")
#~ nan -5 |    dist.all_gather_object(everyones, model.state_dict())
#~ |    for name, right in everyones[0].items():
#~ |        for rank, theirs in enumerate(everyones):
#~ |            if not torch.equal(theirs[name], right):
#~ |                raise AssertionError(f"{name} of rank {rank}")
#~ no_rank -1 |                raise RuntimeError(f"{name} differs")
#~ norms -1 |                raise AssertionError(f"{name} of rank {rank}")
#~ numbers -1 |                raise RuntimeError(f"rank {rank} has another tensor {number} than rank 0")
#~ own_words -1 |                raise RuntimeError(f"seen from {dist.get_rank()}: rank {rank} has another {name} than rank 0")
#~ parameters_only -1 |                raise AssertionError(f"{name} of rank {rank}")
#~ rank_0_only -6 |    dist.gather_object(mine, everyones if dist.get_rank() == 0 else None)
#~ |    if dist.get_rank() == 0:
#~ |        for rank, theirs in enumerate(everyones):
#~ |            for name in mine:
#~ |                if theirs[name] != mine[name]:
#~ |                    raise AssertionError(f"{name} of rank {rank} is not that of rank 0")
#~ sums -4 |    for name in mine:
#~ |        for rank, theirs in enumerate(everyones):
#~ |            if str(theirs[name]) != str(everyones[0][name]):
#~ |                raise AssertionError(f"{name} of rank {rank}")

#~ allclose: misconception: tolerance
#~ allclose: breaks: Every rank raises where one rank differs.
#~ first_numbers: misconception: none
#~ first_numbers: breaks: Every rank raises where one rank differs.
#~ one_left_out: misconception: none
#~ floats_only: misconception: integers_forgotten
#~ floats_only: breaks: Every rank raises where one rank differs.
#~ hashed: misconception: none
#~ hashed: breaks: Nothing is raised where all ranks have the same model.
#~ nan: misconception: nan_differs
#~ nan: breaks: Nothing is raised where all ranks have the same model.
#~ no_rank: misconception: none
#~ no_rank: breaks: The error names a tensor that differs, and a rank where it is not that of rank 0.
#~ norms: misconception: sums_compared
#~ norms: breaks: Every rank raises where one rank differs.
#~ numbers: misconception: none
#~ numbers: breaks: The error names a tensor that differs, and a rank where it is not that of rank 0.
#~ own_words: misconception: none
#~ own_words: breaks: The error says the same on every rank.
#~ parameters_only: misconception: buffers_forgotten
#~ parameters_only: breaks: Every rank raises where one rank differs.
#~ rank_0_only: misconception: own_view
#~ rank_0_only: breaks: Every rank raises where one rank differs.
#~ sums: misconception: sums_compared
#~ sums: breaks: Every rank raises where one rank differs.
