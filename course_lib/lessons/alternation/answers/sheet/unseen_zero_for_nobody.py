# misconception: hang_not_seen
from itertools import zip_longest


def sheet(first, second):
    def sums(order, x):
        found, losses, armed = [0.0], [], False
        for call in order:
            if call == "F":
                armed = True
            if call in "FNM":
                losses.append(x)
            if call in "FNMG":
                x *= 10
            if call in "BS":
                count = 1 if call == "B" else len(losses)
                found[-1] += sum(losses[:count])
                losses = losses[count:]
                if armed:
                    found.append(0.0)
                armed = False
        return found

    one, other = sums(first, 1), sums(second, 3)
    *means, last = zip_longest(one, other, fillvalue=0.0)
    base = sum(sum(pair) / 2 for pair in means)
    return base + last[0], base + last[1]
