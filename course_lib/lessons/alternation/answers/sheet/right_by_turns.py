# Two objects that keep a sheet each, and pause where they average.
class Rank:
    def __init__(self, calls, x):
        self.calls, self.x = list(calls), x
        self.armed, self.losses, self.grad = False, [], 0.0
#~ purse -1 |        self.armed, self.losses, self.grad = 0, [], 0.0
#~ purse_no_hang -1 |        self.armed, self.losses, self.grad = 0, [], 0.0

    def to_next_average(self):
        while self.calls:
            call = self.calls.pop(0)
            if call in ("B", "S"):
                taken = len(self.losses) if call == "S" else 1
                self.new = sum(self.losses[:taken])
                self.grad += self.new
                self.losses = self.losses[taken:]
                sends, self.armed = self.armed, False
#~ purse -1 |                sends, self.armed = self.armed > 0, max(0, self.armed - 1)
#~ purse_no_hang -1 |                sends, self.armed = self.armed > 0, max(0, self.armed - 1)
                if sends:
                    return True
                continue
            if call != "G":
                self.losses.append(self.x)
            if call == "F":
                self.armed = True
#~ purse -1 |                self.armed += 1
#~ purse_no_hang -1 |                self.armed += 1
            self.x *= 10
        return False


def sheet(first, second):
    one, other = Rank(first, 1), Rank(second, 3)
    while True:
        reached = one.to_next_average(), other.to_next_average()
        if reached == (False, False):
            return one.grad, other.grad
        if reached != (True, True):
            return "hang"
#~ purse_no_hang -1 |            return one.grad, other.grad
        one.grad = other.grad = (one.grad + other.grad) / 2
#~ only_new -1 |        mean = (one.new + other.new) / 2
#~ |        one.grad += mean - one.new
#~ |        other.grad += mean - other.new


#~ only_new: misconception: only_new
#~ only_new: breaks: It is what two real ranks have that make these calls.
#~ purse: misconception: purse
#~ purse: breaks: It is what two real ranks have that make these calls.
#~ purse_no_hang: misconceptions: purse, hang_not_seen
