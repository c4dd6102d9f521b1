import copy
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def replica_of(model):
    replica = copy.deepcopy(model)
    for (name, module), original in zip(replica.named_modules(), model.modules()):
        for key, weight in list(original._parameters.items()):
            del module._parameters[key]
            setattr(module, key, weight * 1)
    return replica


def parallel_step(model, inputs, labels, devices):
    parts = inputs.chunk(devices)
    replicas = [model] + [replica_of(model) for _ in parts[1:]]
    with ThreadPoolExecutor(len(parts)) as pool:
        outputs = list(pool.map(lambda pair: pair[0](pair[1]), zip(replicas, parts)))
    whole = torch.cat(outputs)
    nn.functional.cross_entropy(whole, labels).backward()
    return whole
