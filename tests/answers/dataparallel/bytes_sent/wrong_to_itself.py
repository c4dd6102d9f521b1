# misconception: to_itself
# breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
# breaks: Bytes that each device sends
import math


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [2 * (devices - 1) * weights / devices] * devices
    most = math.ceil(samples / devices)
    parts = [max(0, min(most, samples - device * most)) for device in range(devices)]
    sent = [weights + part * sample_out if part else 0 for part in parts]
    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts if part)
    return sent
