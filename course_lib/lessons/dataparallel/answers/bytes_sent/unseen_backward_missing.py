# misconception: no_way_back
def cut(samples, devices):
    size = -(-samples // devices)
    sizes = []
    while samples > 0:
        sizes.append(min(size, samples))
        samples -= size
    return sizes


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [2 * weights * (devices - 1) / devices for _ in range(devices)]
    parts = cut(samples, devices)
    sent = [0.0] * devices
    for device, n in enumerate(parts):
        if device:
            sent[0] += weights + n * sample_in
            sent[device] = n * sample_out
    return sent
