# misconception: ddp_has_a_master
# breaks: DDP: each rank sends as many bytes as a ring all-reduce of the gradients does.
# breaks: the gradients go through a ring all-reduce
import math


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [(devices - 1) * weights] + [weights] * (devices - 1)
    most = math.ceil(samples / devices)
    parts = [max(0, min(most, samples - device * most)) for device in range(devices)]
    sent = [weights + part * sample_out if part else 0 for part in parts]
    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts[1:] if part)
    return sent
