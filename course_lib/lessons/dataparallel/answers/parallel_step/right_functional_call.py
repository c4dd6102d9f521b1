import copy
import threading

import torch
from torch import nn


def parallel_step(model, inputs, labels, devices):
    parts = inputs.chunk(devices)
#~ tensor_split -1 |    parts = [part for part in inputs.tensor_split(devices) if len(part)]
    outputs = [None] * len(parts)
#~ append -1 |    outputs = []
    replicas = [
        (copy.deepcopy(model), {name: weight.clone() for name, weight in model.named_parameters()}) for _ in parts
#~ deepcopy -1 |        (copy.deepcopy(model), {name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()}) for _ in parts
    ]
#~ same_model -3


    def work(device):
        module, weights = replicas[device]
        outputs[device] = torch.func.functional_call(module, weights, (parts[device],))
#~ append -1 |        outputs.append(torch.func.functional_call(module, weights, (parts[device],)))
#~ same_model -2 |        outputs[device] = model(parts[device])


    threads = [threading.Thread(target=work, args=(device,)) for device in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
#~ join_in_the_loop -1
        thread.join()
    gathered = torch.cat(outputs)
    nn.functional.cross_entropy(gathered, labels).backward()
#~ mean_of_means -1 |    losses = [nn.functional.cross_entropy(o, y) for o, y in zip(outputs, labels.chunk(devices))]
#~ |    torch.stack(losses).mean().backward()
#~ sum_of_means -1 |    for output, part in zip(outputs, labels.chunk(devices)):
#~ |        nn.functional.cross_entropy(output, part).backward()
    return gathered
#~ list -1 |    return outputs
#~ returns_loss -2 |    loss = nn.functional.cross_entropy(gathered, labels)
#~ |    loss.backward()
#~ |    return loss.detach()
#~ same_model -3 |    whole = torch.cat(outputs)
#~ |    nn.functional.cross_entropy(whole, labels).backward()
#~ |    return whole

#~ append: misconception: order_of_arrival
#~ append: breaks: Each row is what the model says of its sample.
#~ deepcopy: misconception: cut_off
#~ deepcopy: breaks: Afterwards the model has the gradient of the loss of the whole batch.
#~ join_in_the_loop: misconception: one_after_the_other
#~ join_in_the_loop: breaks: The parts are computed at the same time, each in a thread of its own.
#~ list: misconception: none
#~ mean_of_means: misconception: mean_of_means
#~ mean_of_means: breaks: Afterwards the model has the gradient of the loss of the whole batch.
#~ returns_loss: misconception: none
#~ same_model: misconception: one_model_for_all
#~ same_model: breaks: Each part is computed with a copy of the weights of its own.
#~ sum_of_means: misconception: sum_of_means
#~ sum_of_means: breaks: Afterwards the model has the gradient of the loss of the whole batch.
#~ tensor_split: misconception: other_parts
#~ tensor_split: breaks: The batch is cut as scatter cuts it, and each part goes through the model once.
