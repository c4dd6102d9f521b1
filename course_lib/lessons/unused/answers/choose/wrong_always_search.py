# misconception: not_the_first
# breaks: It is the first one of which this is true.
def choose(steps, weight_decay):
    return "find_unused_parameters"
