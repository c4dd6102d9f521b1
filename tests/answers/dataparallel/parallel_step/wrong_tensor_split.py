# misconception: other_parts
# breaks: The batch is cut as scatter cuts it, and each part goes through the model once.
# breaks: Cut `inputs` as `scatter` does.
# breaks: with `devices` devices
import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    parts = [part for part in inputs.tensor_split(devices) if len(part)]
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
    for thread in threads:
        thread.join()
    gathered = torch.cat(outputs)
    nn.functional.cross_entropy(gathered, labels).backward()
    return gathered
