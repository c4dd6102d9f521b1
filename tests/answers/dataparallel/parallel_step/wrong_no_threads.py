# misconception: one_after_the_other
# breaks: The parts are computed at the same time, each in a thread of its own.
# breaks: in a thread of its own
import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    outputs = []
    for part in inputs.chunk(devices):
        weights = {name: weight.clone() for name, weight in model.named_parameters()}
        outputs.append(torch.func.functional_call(model, weights, (part,)))
    whole = torch.cat(outputs)
    nn.functional.cross_entropy(whole, labels).backward()
    return whole
