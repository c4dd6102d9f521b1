# misconception: detached
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.parts = torch.nn.ModuleList([encoder, head])

    def forward(self, *inputs):
        encoder, head = self.parts
        embeddings = [encoder(x) for x in inputs]
        scores = head(*(e.detach() for e in embeddings))
        return {"embeddings": embeddings, "scores": scores}
