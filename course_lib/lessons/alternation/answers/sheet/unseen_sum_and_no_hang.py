# misconceptions: hang_not_seen, summed
def sheet(first, second):
    def parts(order, x):
        out, losses, armed = [0], [], False
        for c in order:
            if c in "BS":
                k = len(losses) if c == "S" else 1
                out[-1] += sum(losses[:k])
                losses = losses[k:]
                if armed:
                    out += [0]
                    armed = False
            else:
                armed |= c == "F"
                losses += [x] * (c != "G")
                x *= 10
        return out

    a, b = parts(first, 1), parts(second, 3)
    x = y = 0
    for i in range(max(len(a), len(b))):
        x += a[i] if i < len(a) else 0
        y += b[i] if i < len(b) else 0
        if i < max(len(a), len(b)) - 1:
            x = y = x + y
    return x, y
