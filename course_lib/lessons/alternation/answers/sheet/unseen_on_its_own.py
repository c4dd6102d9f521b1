# misconception: hang_not_seen
def sheet(first, second):
    """Averages in pairs; who has none to meet keeps what it has."""
    grads = []
    for order, x in ((first, 1.0), (second, 3.0)):
        pieces, now, armed, losses = [], 0.0, False, []
        for call in order:
            if call in "FNMG":
                armed = armed or call == "F"
                losses += [] if call == "G" else [x]
                x *= 10
            else:
                amount, losses = (sum(losses), []) if call == "S" else (losses[0], losses[1:])
                now += amount
                if armed:
                    pieces.append(now)
                    now, armed = 0.0, False
        grads.append((pieces, now))
    (a, rest_a), (b, rest_b) = grads
    both = 0.0
    n = min(len(a), len(b))
    for i in range(n):
        both += (a[i] + b[i]) / 2
    return both + sum(a[n:]) + rest_a, both + sum(b[n:]) + rest_b
