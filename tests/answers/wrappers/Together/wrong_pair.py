# misconception: none
# breaks: and returns a dictionary with
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return embeddings, self.head(*embeddings)
