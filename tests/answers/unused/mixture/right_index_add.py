import torch
import torch.distributed as dist
#~ own_shares -1


def mixture(x, gates, experts):
    gate, choice = gates.max(1)
#~ no_gate -1 |    choice = gates.argmax(1)
#~ sampled -1 |    choice = torch.multinomial(gates.detach(), 1).flatten()
#~ |    gate = gates.gather(1, choice[:, None]).flatten()
    outputs = torch.zeros_like(x)
#~ per_expert -1 |    outputs = torch.zeros(len(experts), *x.shape)
    for number, expert in enumerate(experts):
        mine = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, mine, gate[mine, None] * expert(x[mine]))
#~ dense -2 |        outputs = outputs + ((choice == number) * gate)[:, None] * expert(x)
#~ no_gate -1 |        outputs = outputs.index_add(0, mine, expert(x[mine]))
#~ per_expert -1 |        outputs[number] = torch.zeros_like(x).index_add(0, mine, gate[mine, None] * expert(x[mine]))
#~ skip -2 |        mine = choice == number
#~ |        if mine.any():
#~ |            outputs[mine] = gate[mine, None] * expert(x[mine])
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    dist.all_reduce(share)
    share /= dist.get_world_size()
#~ dense -2 |    dist.all_reduce(share, op=dist.ReduceOp.AVG)
#~ no_gate -2 |    dist.all_reduce(share, op=dist.ReduceOp.AVG)
#~ own_shares -2
#~ skip -2 |    dist.all_reduce(share, op=dist.ReduceOp.AVG)
#~ summed -1
    return outputs, len(experts) * (share * gates.mean(0)).sum()
#~ no_balance -1 |    return outputs + 0 * (share * gates.mean(0)).sum()
#~ sum_of_experts -1 |    return outputs, (share * gates.mean(0)).sum()
#~ zero_when_balanced -1 |    return outputs, len(experts) * (share * gates.mean(0)).sum() - 1

#~ dense: misconception: everyone_computes
#~ dense: breaks: Every token goes through one expert only.
#~ no_balance: misconception: none
#~ no_gate: misconception: gate_forgotten
#~ no_gate: breaks: Every token is put through the expert with its largest gate, times that gate.
#~ own_shares: misconception: own_shares
#~ own_shares: breaks: The averaged gradients are those of one process with the tokens of all ranks.
#~ per_expert: misconception: none
#~ sampled: misconception: none
#~ sampled: breaks: Every token is put through the expert with its largest gate, times that gate.
#~ skip: misconception: idle_skipped
#~ skip: breaks: Every parameter gets a gradient on every rank, so that plain DDP can average.
#~ sum_of_experts: misconception: none
#~ sum_of_experts: breaks: The averaged gradients are those of one process with the tokens of all ranks.
#~ summed: misconception: shares_summed
#~ summed: breaks: The averaged gradients are those of one process with the tokens of all ranks.
#~ zero_when_balanced: misconception: none
#~ zero_when_balanced: breaks: The mean of all ranks' balance terms is the balance term of one process.
