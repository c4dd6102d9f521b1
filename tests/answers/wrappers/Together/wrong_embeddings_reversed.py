# misconception: none
# breaks: a tuple (or list) with the embeddings of each input, in order
# breaks: Scores and embeddings are those of the given encoder and head, in the order of the inputs.
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings), "embeddings": embeddings[::-1]}
