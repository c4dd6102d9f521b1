# misconception: grad_attribute
def unused_parameters(model, loss):
    return [name for name, p in model.module.named_parameters() if p.requires_grad and p.grad is None]
