# misconception: none
# breaks: Real ranks that train in that way have the weights of one process after each step.
def choose(steps, weight_decay):
    if all(step[0] == "both" for rank in steps for step in rank):
        return "default"
    if all(len(rank[0]) == 1 and used == rank[0][0] for rank in steps for step in rank for used in step):
        return "static_graph"
    for everyones in zip(*steps):
        used = {heads for step in everyones for heads in step}
        if weight_decay and len(used) == 1 and used != {"both"}:
            return "find_unused_parameters"
    return "touch"
