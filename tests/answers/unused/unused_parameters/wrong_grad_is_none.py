# misconceptions: grad_attribute, frozen_named
def unused_parameters(model, loss):
    return [name for name, p in model.module.named_parameters() if p.grad is None]
