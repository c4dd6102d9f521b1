# misconception: only_new
def sheet(first, second):
    def play(order, x):
        events, losses, armed = [], [], False
        for call in order:
            if call in "BS":
                take = losses[:] if call == "S" else losses[:1]
                del losses[: len(take)]
                events.append((sum(take), armed))
                armed = False
            else:
                if call == "F":
                    armed = True
                if call != "G":
                    losses.append(x)
                x = x * 10
        return events

    plays = [play(first, 1), play(second, 3)]
    averages = [[value for value, sent in each if sent] for each in plays]
    if len(averages[0]) != len(averages[1]):
        return "hang"
    common = sum((a + b) / 2 for a, b in zip(*averages))
    return [common + sum(value for value, sent in each if not sent) for each in plays]
