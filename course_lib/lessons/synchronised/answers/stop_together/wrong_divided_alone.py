# misconception: own_loss
import copy, math, torch, torch.distributed as dist
def stop_together(ddp, train_epoch, validate, patience, most):
    best = math.inf; bad = 0; hist = []; state = None
    for e in range(most):
        train_epoch()
        l = validate()
        hist.append(l.sum().item() / len(l))
        if hist[-1] < best: best, bad, state = hist[-1], 0, copy.deepcopy(ddp.module.state_dict())
        else: bad += 1
        if bad >= patience: break
    ddp.module.load_state_dict(state)
    return hist
