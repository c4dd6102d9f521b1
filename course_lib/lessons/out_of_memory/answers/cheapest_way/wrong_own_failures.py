# misconception: own_failures
# breaks: All ranks choose the same.
def cheapest_way(ways, failures, steps, step_seconds):
    wrong = failures / steps

    def added(way):
        lost = way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2
        return way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))

    return min(ways, key=lambda name: added(ways[name]))
