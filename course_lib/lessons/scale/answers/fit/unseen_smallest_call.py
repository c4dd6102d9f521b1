# misconception: latency_of_a_call
def fit(measurements):
    # The smallest tensors have nothing to send: all of their time is latency.
    smallest = min(size for _, size, _ in measurements)
    waits = [seconds for _, size, seconds in measurements if size == smallest]
    latency = sum(waits) / len(waits)

    # The largest have only bytes.
    largest = max(size for _, size, _ in measurements)
    rates = [2 * (n - 1) / n * size / seconds for n, size, seconds in measurements if size == largest]
    return latency, sum(rates) / len(rates)
