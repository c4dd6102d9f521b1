# misconception: one_tuple
# breaks: each as an argument of its own
# breaks: `head` on all embeddings
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(embeddings), "embeddings": embeddings}
