# misconception: one_model_for_all
# breaks: Each part is computed with a copy of the weights of its own.
# breaks: Do what `DataParallel` does in a training step
# breaks: Give each part to a copy of `model`
import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    parts = inputs.chunk(devices)
    outputs = [None] * len(parts)


    def work(device):
        outputs[device] = model(parts[device])


    threads = [threading.Thread(target=work, args=(device,)) for device in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = torch.cat(outputs)
    nn.functional.cross_entropy(whole, labels).backward()
    return whole
