# misconception: none
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, *inputs):
        embeddings = []
        for x in inputs:
            embeddings.insert(0, self.encoder(x))
        return {"embeddings": embeddings, "scores": self.head(*embeddings)}
