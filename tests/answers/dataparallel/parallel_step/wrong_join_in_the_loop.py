# misconception: one_after_the_other
# breaks: The parts are computed at the same time, each in a thread of its own.
# breaks: all at the same time
import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    parts = inputs.chunk(devices)
    outputs = [None] * len(parts)
    replicas = [
        (copy.deepcopy(model), {name: weight.clone() for name, weight in model.named_parameters()}) for _ in parts
    ]


    def work(device):
        module, weights = replicas[device]
        outputs[device] = torch.func.functional_call(module, weights, (parts[device],))


    threads = [threading.Thread(target=work, args=(device,)) for device in range(len(parts))]
    for thread in threads:
        thread.start()
        thread.join()
    gathered = torch.cat(outputs)
    nn.functional.cross_entropy(gathered, labels).backward()
    return gathered
