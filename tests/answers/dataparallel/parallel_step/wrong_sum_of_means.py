# misconception: sum_of_means
# breaks: Afterwards the model has the gradient of the loss of the whole batch.
# breaks: Go back from the cross-entropy of the *whole* batch
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
    for thread in threads:
        thread.join()
    gathered = torch.cat(outputs)
    for output, part in zip(outputs, labels.chunk(devices)):
        nn.functional.cross_entropy(output, part).backward()
    return gathered
