# misconception: init_comes_late
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        self.encoder, self.head = encoder, head
        super().__init__()

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
