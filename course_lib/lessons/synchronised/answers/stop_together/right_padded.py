import copy, math, torch, torch.distributed as dist
def stop_together(ddp, train_epoch, validate, patience, most):
    r, n = dist.get_rank(), dist.get_world_size()
    best = math.inf; bad = 0; hist = []; state = copy.deepcopy(ddp.state_dict())
    for e in range(most):
        train_epoch()
        l = validate().double()
        c = torch.tensor([len(l)]); cs = [torch.zeros_like(c) for _ in range(n)]
        dist.all_gather(cs, c)
        pad = torch.zeros(int(max(cs)), dtype=torch.double); pad[:len(l)] = l
        out = [torch.zeros_like(pad) for _ in range(n)]
        dist.all_gather(out, pad)
        m = (torch.stack(out).sum() / sum(cs)).item(); hist.append(m)
        if m < best: best, bad, state = m, 0, copy.deepcopy(ddp.state_dict())
        else: bad += 1
        if bad >= patience: break
    ddp.load_state_dict(state)
    return tuple(hist)
