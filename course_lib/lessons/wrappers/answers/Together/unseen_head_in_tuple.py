# misconception: hidden
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder = encoder
        self.heads = (head,)

    def forward(self, *inputs):
        out = {"embeddings": tuple(map(self.encoder, inputs))}
        (head,) = self.heads
        out["scores"] = head(*out["embeddings"])
        return out
