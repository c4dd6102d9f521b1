# misconception: all_forwards_arm
def calls_of(order, x):
    grad, armed, losses = 0.0, False, []
    for call in order:
        if call in ("B", "S"):
            while losses:
                grad += losses.pop(0)
                if call == "B":
                    break
            if armed:
                grad = yield grad
            armed = False
        else:
            armed = True
            if call != "G":
                losses.append(x)
            x *= 10
    return grad


def sheet(first, second):
    ranks = [calls_of(first, 1.0), calls_of(second, 3.0)]
    sent, done = [None, None], [None, None]
    while True:
        offers = []
        for number, rank in enumerate(ranks):
            try:
                offers.append(rank.send(sent[number]))
            except StopIteration as end:
                done[number] = end.value
        if len(offers) == 1:
            return "hang"
        if not offers:
            return done
        sent = [sum(offers) / 2] * 2
