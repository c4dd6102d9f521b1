import math


def bytes_sent(scheme, devices, samples, weights, sample_in, sample_out):
    if scheme == "ddp":
        return [2 * (devices - 1) * weights / devices] * devices
#~ ddp_scatters -1 |        sent = [2 * (devices - 1) * weights / devices] * devices
#~ |        sent[0] += (samples - math.ceil(samples / devices)) * sample_in
#~ |        return sent
#~ master -1 |        return [(devices - 1) * weights] + [weights] * (devices - 1)
#~ one_lap -1 |        return [(devices - 1) * weights / devices] * devices
#~ to_everybody -1 |        return [(devices - 1) * weights] * devices
#~ total -1 |        return 2 * (devices - 1) * weights
    most = math.ceil(samples / devices)
    parts = [max(0, min(most, samples - device * most)) for device in range(devices)]
#~ equal_parts -2 |    parts = [samples / devices] * devices
    sent = [weights + part * sample_out if part else 0 for part in parts]
    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts[1:] if part)
#~ forward_only -2 |    sent = [part * sample_out if part else 0 for part in parts]
#~ |    sent[0] = sum(weights + part * sample_in for part in parts[1:] if part)
#~ idle_device -2 |    sent = [weights + part * sample_out for part in parts]
#~ |    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts[1:])
#~ weights_stay -2 |    sent = [part * sample_out if part else 0 for part in parts]
#~ |    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts[1:] if part)
#~ idle_and_output_gradients -2 |    sent = [weights + part * sample_out for part in parts]
#~ |    sent[0] = sum(weights + part * sample_in for part in parts[1:])
#~ output_gradients -1 |    sent[0] = sum(weights + part * sample_in for part in parts[1:] if part)
#~ sent_once -1 |    sent[0] = sum(part * (sample_in + sample_out) for part in parts[1:])
#~ |    if sum(part > 0 for part in parts) > 1:
#~ |        sent[0] += weights  # once, and the other devices pass them on
#~ to_itself -1 |    sent[0] = sum(weights + part * (sample_in + sample_out) for part in parts if part)
#~ weights_only -2 |    sent = [weights if part else 0 for part in parts]
#~ |    sent[0] = sum(weights for part in parts[1:] if part)
    return sent
#~ device_0_last -1 |    return sent[::-1]
#~ total -1 |    return sum(sent)

#~ ddp_scatters: misconception: none
#~ device_0_last: misconception: none
#~ equal_parts: misconception: equal_parts
#~ equal_parts: breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
#~ forward_only: misconception: no_way_back
#~ forward_only: breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
#~ idle_device: misconception: idle_device_counted
#~ idle_device: breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
#~ master: misconception: ddp_has_a_master
#~ master: breaks: DDP: each rank sends as many bytes as a ring all-reduce of the gradients does.
#~ one_lap: misconception: one_lap
#~ one_lap: breaks: DDP: each rank sends as many bytes as a ring all-reduce of the gradients does.
#~ output_gradients: misconception: output_gradients_forgotten
#~ output_gradients: breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
#~ sent_once: misconception: none
#~ to_everybody: misconception: everybody_to_everybody
#~ to_everybody: breaks: DDP: each rank sends as many bytes as a ring all-reduce of the gradients does.
#~ to_itself: misconception: to_itself
#~ to_itself: breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
#~ total: misconception: none
#~ weights_only: misconception: batch_forgotten
#~ weights_only: breaks: DataParallel: each device sends as many bytes as are copied from it in a step.
#~ weights_stay: misconception: no_way_back
#~ idle_and_output_gradients: misconceptions: output_gradients_forgotten, idle_device_counted
