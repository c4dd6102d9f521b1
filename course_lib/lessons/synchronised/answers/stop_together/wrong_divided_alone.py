# misconception: own_loss
import math
def stop_together(train_epoch, validate, patience, most):
    best = math.inf; bad = 0; hist = []
    for e in range(most):
        train_epoch()
        l = validate()
        hist.append(l.sum().item() / len(l))
        if hist[-1] < best: best, bad = hist[-1], 0
        else: bad += 1
        if bad >= patience: break
    return hist
