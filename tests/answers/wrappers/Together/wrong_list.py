# misconception: hidden
# breaks: Write the module that goes into DDP
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.parts = [encoder, head]

    def forward(self, *inputs):
        embeddings = tuple(self.parts[0](each) for each in inputs)
        return {"scores": self.parts[1](*embeddings), "embeddings": embeddings}
