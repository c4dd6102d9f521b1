import torch
from torch import nn


class Pairing(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def forward(self, first, *others):
        # One pass through the encoder for all inputs.
        embeddings = self.parts["encoder"](torch.cat([first, *others])).chunk(1 + len(others))
        return dict(embeddings=list(embeddings), scores=self.parts["head"](*embeddings))


def Together(encoder, head):
    return Pairing({"head": head, "encoder": encoder})
