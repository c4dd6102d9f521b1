# misconception: copied
from copy import deepcopy

import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        # so that nobody outside changes the weights behind DDP's back
        self.encoder = deepcopy(encoder)
        self.head = deepcopy(head)

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(x) for x in inputs)
        return {"embeddings": embeddings, "scores": self.head(*embeddings)}
