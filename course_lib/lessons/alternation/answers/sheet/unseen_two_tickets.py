# misconception: purse
def sheet(first, second):
    """Every forward buys a ticket; a backward with a ticket waits for the other rank."""
    state = [{"calls": list(calls), "value": value, "tickets": 0, "losses": [], "grad": 0} for calls, value in ((first, 1), (second, 3))]

    def run(rank):
        while rank["calls"]:
            call = rank["calls"].pop(0)
            if call in "FNMG":
                rank["tickets"] += call == "F"
                if call != "G":
                    rank["losses"].append(rank["value"])
                rank["value"] *= 10
                continue
            count = len(rank["losses"]) if call == "S" else 1
            for _ in range(count):
                rank["grad"] += rank["losses"].pop(0)
            if rank["tickets"]:
                rank["tickets"] -= 1
                return True
        return False

    while True:
        waiting = [run(rank) for rank in state]
        if not any(waiting):
            return [rank["grad"] for rank in state]
        if not all(waiting):
            return "hang"
        mean = sum(rank["grad"] for rank in state) / 2
        for rank in state:
            rank["grad"] = mean
