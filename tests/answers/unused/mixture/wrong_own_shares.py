# misconception: own_shares
# breaks: The averaged gradients are those of one process with the tokens of all ranks.
# breaks: The share of an expert is the part of the tokens *of all ranks* that went to it.
import torch


def mixture(x, gates, experts):
    gate, choice = gates.max(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mine = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, mine, gate[mine, None] * expert(x[mine]))
    share = torch.bincount(choice, minlength=len(experts)) / len(x)
    return outputs, len(experts) * (share * gates.mean(0)).sum()
