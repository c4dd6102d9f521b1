# misconception: init_comes_late
import torch
from torch import nn


class Together(nn.Module):
    def __init__(self, encoder, head):
        self.encoder = encoder
        self.head = head
        super().__init__()

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(batch) for batch in inputs)
        return {"embeddings": embeddings, "scores": self.head(*embeddings)}
