# misconception: one_tuple
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, *inputs):
        embeddings = [self.encoder(x) for x in inputs]
        joined = torch.cat(embeddings, dim=-1)
        return dict(embeddings=embeddings, scores=self.head(joined))
