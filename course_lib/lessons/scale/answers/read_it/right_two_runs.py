def read_it(runs, gradients, claims):
    """Two runs are enough for two numbers: 16 and 32 ranks."""
    step = {ranks: seconds for ranks, _, _, seconds in runs}
    batch = {ranks: ranks * samples for ranks, _, samples, _ in runs}
    kind = "strong" if batch[1] == batch[32] else "weak"

    def computed(n):
        return step[1] * batch[n] / batch[1] / n

    sent = {n: step[n] - computed(n) for n in step if n > 1}
    latency = (sent[32] - sent[16] * (31 / 32) / (15 / 16)) / (62 - 30 * (31 / 32) / (15 / 16))
    whole = (sent[16] - 30 * latency) / (2 * 15 / 16)
    batch[64] = batch[1] if kind == "strong" else 64 * batch[1]
    step_64 = computed(64) + 126 * latency + 126 / 64 * whole
#~ same_bytes -1 |    step_64 = computed(64) + sent[32] * (63 / 64) / (31 / 32)
    faster = {n: batch[n] / seconds / (batch[1] / step[1]) for n, seconds in {**step, 64: step_64}.items()}
#~ carried_on -1 |    faster = {n: batch[n] / seconds / (batch[1] / step[1]) for n, seconds in step.items()}
#~ |    faster[64] = 2 * faster[32]
    known = {
        "speed_up": lambda n: faster[n],
        "efficiency": lambda n: faster[n] / n,
        "busbw": lambda n: gradients / sent[n] * (2 - 2 / n),
    }
    wrong = [i for i, (what, n, value) in enumerate(claims) if not 0.98 < value / known[what](n) < 1.02]
    return kind, faster[64], wrong

#~ same_bytes: misconception: bytes_only
#~ same_bytes: breaks: The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.
#~ carried_on: misconception: trend
#~ carried_on: breaks: The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.
