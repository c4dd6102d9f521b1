# misconception: fixed_number
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self):
        embeddings = tuple(self.encoder(each) for each in self.inputs)
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
