# misconception: summed
class Side:
    def __init__(self, order, x):
        self.order, self.x, self.at = order, x, 0
        self.flag, self.pending, self.grad = 0, [], 0.0

    def go(self):
        while self.at < len(self.order):
            call = self.order[self.at]
            self.at += 1
            match call:
                case "F":
                    self.flag = 1
                    self.pending.append(self.x)
                    self.x *= 10
                case "N" | "M":
                    self.pending.append(self.x)
                    self.x *= 10
                case "G":
                    self.x *= 10
                case _:
                    n = 1 if call == "B" else len(self.pending)
                    self.grad += sum(self.pending[:n])
                    self.pending = self.pending[n:]
                    if self.flag:
                        self.flag = 0
                        return "sends"
        return "over"


def sheet(first, second):
    left, right = Side(first, 1), Side(second, 3)
    while (ways := (left.go(), right.go())) == ("sends", "sends"):
        left.grad = right.grad = left.grad + right.grad
    return "hang" if "sends" in ways else (left.grad, right.grad)
