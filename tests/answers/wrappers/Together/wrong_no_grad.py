# misconception: detached
# breaks: gradients must be able to flow through both
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs):
        with torch.no_grad():
            embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
