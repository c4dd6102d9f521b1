# misconception: one_expert
# breaks: Every token is put through its two experts, and each result is multiplied by its gate.
import torch


def mixture(x, y, gates, experts):
    choice = gates.argmax(1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows = (choice == number).nonzero().flatten()
        outputs = outputs.index_add(0, rows, expert(x[rows]))
    return outputs, (outputs - y).square().mean()
