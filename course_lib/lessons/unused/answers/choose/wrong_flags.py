# misconception: none
def choose(steps, weight_decay):
    return {"find_unused_parameters": True}
