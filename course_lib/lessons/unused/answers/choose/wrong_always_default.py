# misconception: default_though_unused
# breaks: Real ranks that train in that way have the weights of one process after each step.
def choose(steps, weight_decay):
    return "default"
