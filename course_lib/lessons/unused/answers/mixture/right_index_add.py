import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
#~ returns_early -0 |    if len(x) == 0:
#~ |        return x, torch.zeros((), requires_grad=True)
#~ returns_zero -0 |    if len(x) == 0:
#~ |        return x, x.sum()
    gate, choice = gates.topk(2, dim=1)
#~ detached_gates -1 |    gate, choice = gates.detach().topk(2, dim=1)
#~ lesson -1 |    gate, choice = gates.max(1, keepdim=True)
#~ one_expert -1 |    gate, choice = gates.topk(1, dim=1)
#~ three -1 |    gate, choice = gates.topk(3, dim=1)
#~ renormalised -0 |    gate = gate / gate.sum(1, keepdim=True)
#~ sampled -1 |    choice = torch.multinomial(gates.detach() + 1e-6, 2)
#~ |    gate = gates.gather(1, choice)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, place = (choice == number).nonzero(as_tuple=True)
#~ skip -0 |        if len(token) == 0:
#~ |            continue
        outputs = outputs.index_add(0, token, gate[token, place, None] * expert(x[token]))
#~ assigned -1 |        outputs = outputs.index_put((token,), gate[token, place, None] * expert(x[token]))
#~ dense -2 |        outputs = outputs + ((choice == number) * gate).sum(1, keepdim=True) * expert(x)
#~ detached_experts -1 |        outputs = outputs.index_add(0, token, gate[token, place, None] * expert(x[token]).detach())
#~ no_gate -1 |        outputs = outputs.index_add(0, token, expert(x[token]))
    tokens = torch.tensor(float(len(x)))
    dist.all_reduce(tokens)
    factor = dist.get_world_size() / tokens
#~ no_ranks -1 |    factor = 1 / tokens
#~ own_mean -1 |    factor = 1 / max(len(x), 1)
    loss = factor * (outputs - y).square().mean(1).sum()
#~ lesson -1 |    loss = (outputs - y).square().mean()
#~ sum_of_features -1 |    loss = factor * (outputs - y).square().sum()
    return outputs, loss
#~ whole_loss -1 |    return outputs, loss + 1 - loss.detach()

#~ assigned: misconception: overwritten
#~ dense: misconception: everyone_computes
#~ dense: breaks: Every token goes through two experts only.
#~ detached_experts: misconception: none
#~ detached_gates: misconception: none
#~ lesson: misconception: one_expert
#~ lesson: breaks: Every token is put through its two experts, and each result is multiplied by its gate.
#~ no_gate: misconception: gate_forgotten
#~ no_gate: breaks: Every token is put through its two experts, and each result is multiplied by its gate.
#~ no_ranks: misconception: ranks_forgotten
#~ one_expert: misconception: one_expert
#~ own_mean: misconception: own_mean
#~ own_mean: breaks: The averaged gradients are those of one process with the tokens of all ranks.
#~ renormalised: misconception: renormalised
#~ returns_early: misconception: left_early
#~ returns_zero: misconception: left_early
#~ sampled: misconception: none
#~ skip: misconception: idle_skipped
#~ skip: breaks: Every parameter gets a gradient on every rank, so that plain DDP can average.
#~ sum_of_features: misconception: none
#~ three: misconception: none
#~ whole_loss: misconception: none
#~ whole_loss: breaks: The mean of the ranks' losses is the loss of that process.
