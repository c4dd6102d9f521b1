# misconception: batch_forgotten
# breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
# breaks: The batch lies on device 0, where the outputs are gathered
import math


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [2 * (devices - 1) * weights / devices] * devices
    most = math.ceil(samples / devices)
    parts = [max(0, min(most, samples - device * most)) for device in range(devices)]
    sent = [weights if part else 0 for part in parts]
    sent[0] = sum(weights for part in parts[1:] if part)
    return sent
