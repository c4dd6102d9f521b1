# misconceptions: output_gradients_forgotten, equal_parts
# breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [2 * (devices - 1) * weights / devices] * devices
    part = samples / devices
    rest = weights + part * sample_out
    return [(devices - 1) * (weights + part * sample_in)] + [rest] * (devices - 1)
