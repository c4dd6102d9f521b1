# misconception: all_forwards_arm
ARMING = {"F", "N"}


def sheet(first, second):
    one, other = history(first, 1), history(second, 3)
    if len(one) != len(other):
        return "hang"
    a = b = 0
    for step, (more, less) in enumerate(zip(one, other)):
        a, b = a + more, b + less
        if step + 1 < len(one):
            a = b = (a + b) / 2
    return a, b


def history(order, unit):
    """What comes into .grad before each average, and after the last."""
    out, power, queue, armed = [0], 1, [], False
    for letter in order:
        if letter == "B":
            out[-1] += queue.pop(0)
        elif letter == "S":
            out[-1] += sum(queue)
            queue = []
        else:
            if letter != "G":
                queue.append(unit * power)
            power *= 10
            armed = armed or letter in ARMING
            continue
        if armed:
            out.append(0)
            armed = False
    return out
