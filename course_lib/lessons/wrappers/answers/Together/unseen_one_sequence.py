# misconception: fixed_number
import torch
from torch import nn


class Together(nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.parts = nn.ModuleDict({"encoder": encoder, "head": head})

    def forward(self, inputs):
        embeddings = tuple(self.parts["encoder"](x) for x in inputs)
        return {"embeddings": embeddings, "scores": self.parts["head"](*embeddings)}
