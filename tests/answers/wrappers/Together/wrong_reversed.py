# misconception: none
# breaks: Scores and embeddings are those of the given encoder and head, in the order of the inputs.
# breaks: `"scores"`: what the head makes of them.
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings[::-1]), "embeddings": embeddings}
