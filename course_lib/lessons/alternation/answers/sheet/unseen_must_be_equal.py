# misconception: unequal_hangs
def sheet(first, second):
    if list(first) != list(second):
        return "hang"
    grads, losses, x, armed = [0.0, 0.0], [], 1, False
    for call in first:
        if call in "BS":
            some = losses[:1] if call == "B" else losses
            losses = losses[len(some) :]
            grads = [grads[0] + sum(some), grads[1] + 3 * sum(some)]
            if armed:
                grads = [sum(grads) / 2] * 2
            armed = False
            continue
        if call != "G":
            losses = [*losses, x]
        armed |= call == "F"
        x *= 10
    return grads
