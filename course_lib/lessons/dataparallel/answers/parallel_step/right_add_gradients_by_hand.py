import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    # Copies are cut off on purpose; their gradients are carried home by hand.
    replicas = [copy.deepcopy(model) for _ in inputs.chunk(devices)]
    parts = inputs.chunk(devices)
    outputs = {}
    threads = [
        threading.Thread(target=lambda d=d: outputs.update({d: replicas[d](parts[d])})) for d in range(len(parts))
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    whole = torch.cat([outputs[d] for d in range(len(parts))])
#~ no_threads -10 |    outputs = []
#~ |    for part in inputs.chunk(devices):
#~ |        weights = {name: weight.clone() for name, weight in model.named_parameters()}
#~ |        outputs.append(torch.func.functional_call(model, weights, (part,)))
#~ |    whole = torch.cat(outputs)
    nn.functional.cross_entropy(whole, labels).backward()
    for weights in zip(model.parameters(), *(replica.parameters() for replica in replicas)):
        weights[0].grad = sum(weight.grad for weight in weights[1:])
#~ no_threads -2
    return whole

#~ no_threads: misconception: one_after_the_other
#~ no_threads: breaks: The parts are computed at the same time, each in a thread of its own.
