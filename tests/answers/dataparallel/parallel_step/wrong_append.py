# misconception: order_of_arrival
# breaks: Each row is what the model says of its sample.
# breaks: in the order of the batch
import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    parts = inputs.chunk(devices)
    outputs = []
    replicas = [
        (copy.deepcopy(model), {name: weight.clone() for name, weight in model.named_parameters()}) for _ in parts
    ]


    def work(device):
        module, weights = replicas[device]
        outputs.append(torch.func.functional_call(module, weights, (parts[device],)))


    threads = [threading.Thread(target=work, args=(device,)) for device in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gathered = torch.cat(outputs)
    nn.functional.cross_entropy(gathered, labels).backward()
    return gathered
