import numpy as np


def read_it(runs, gradients, claims):
    by = {ranks: (samples, seconds) for ranks, _, samples, seconds in runs}
    strong = by[32][0] < by[1][0]
#~ by_times -1 |    strong = by[32][1] < by[1][1]
    t1 = by[1][1]
    rows, sent = [], []
    for n, machines, _, seconds in runs:
        if machines > 1:
#~ all_runs -1 |        if n > 1:
            t = seconds - (t1 / n if strong else t1)
            rows.append([2 * (n - 1) / t, 2 * (n - 1) / n / t])
#~ no_rounds -1 |            rows.append([0, 2 * (n - 1) / n / t])
            sent.append(1)
    a, b = np.linalg.lstsq(np.array(rows), np.array(sent), rcond=None)[0]
    t64 = (t1 / 64 if strong else t1) + 126 * a + 126 / 64 * b
#~ per_rank_wire -1 |    t64 = (t1 / 64 if strong else t1) + 126 * a + 126 * b

    def fits(what, n, value):
        speed_up = t1 / by[n][1] * (1 if strong else n)
        if what == "speed_up":
            return np.isclose(value, speed_up, rtol=0.01)
        if what == "efficiency":
            return np.isclose(value, speed_up / n, rtol=0.01)
#~ steps_only -1 |            return np.isclose(value, t1 / by[n][1], rtol=0.01)
        t = by[n][1] - (t1 / n if strong else t1)
        return np.isclose(value, gradients / t * 2 * (n - 1) / n, rtol=0.01)
#~ size_by_time -1 |        return np.isclose(value, gradients / t, rtol=0.01)

    wrong = [place for place, claim in enumerate(claims) if not fits(*claim)]
#~ by_name -1 |    wrong = [claim[0] for claim in claims if not fits(*claim)]
#~ rather_holds -1 |    wrong = [place for place, claim in enumerate(claims) if fits(*claim)]
    return ("strong" if strong else "weak"), t1 / t64 * (1 if strong else 64), wrong
#~ step_ratio -1 |    return ("strong" if strong else "weak"), t1 / t64, wrong

#~ by_times: misconception: kind_by_times
#~ by_times: breaks: It tells weak scaling from strong.
#~ all_runs: misconception: one_stretch
#~ all_runs: breaks: The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.
#~ no_rounds: misconception: none
#~ no_rounds: breaks: The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.
#~ per_rank_wire: misconception: none
#~ per_rank_wire: breaks: The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.
#~ steps_only: misconception: weak_formula
#~ steps_only: breaks: It finds the claims that are wrong, and no others.
#~ size_by_time: misconception: algbw
#~ size_by_time: breaks: It finds the claims that are wrong, and no others.
#~ by_name: misconception: none
#~ by_name: breaks: Three things: "weak" or "strong", a number, and the places of claims in their list.
#~ rather_holds: misconception: none
#~ rather_holds: breaks: It finds the claims that are wrong, and no others.
#~ step_ratio: misconception: steps_not_samples
#~ step_ratio: breaks: The speed-up of 64 ranks is what ranks on several machines let one expect, to within five percent.
