# misconception: steps_not_samples
def read_it(runs, gradients, claims):
    seconds, samples = {}, {}
    for ranks, machines, per_rank, took in runs:
        seconds[ranks], samples[ranks] = took, per_rank
    strong = samples[1] != samples[32]

    def compute(n):
        return seconds[1] / n if strong else seconds[1]

    def talk(n):
        return seconds[n] - compute(n)

    def speed_up(n, t):
        return n * compute(n) / t if not strong else seconds[1] / t

    # talk(n) = 2 (n - 1) a + 2 (n - 1) / n b, from the runs on 16 and on 32 ranks
    x = [talk(16) / 30, talk(32) / 62]
    b = (x[0] - x[1]) / (1 / 16 - 1 / 32)
    a = x[1] - b / 32
    at_64 = seconds[1] / (compute(64) + 126 * a + 126 * b / 64)

    def value(what, n):
        if what == "speed_up":
            return speed_up(n, seconds[n])
        if what == "efficiency":
            return speed_up(n, seconds[n]) / n
        return gradients / talk(n) * 2 * (n - 1) / n

    wrong = [k for k, (what, n, said) in enumerate(claims) if abs(said / value(what, n) - 1) > 0.02]
    return ("strong" if strong else "weak"), at_64, wrong
