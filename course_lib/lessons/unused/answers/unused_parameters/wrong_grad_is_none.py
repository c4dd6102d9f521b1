# misconceptions: grad_attribute, frozen_named
# breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
def unused_parameters(model, loss):
    return [name for name, p in model.module.named_parameters() if p.grad is None]
