# misconception: copied
# breaks: The given parts end with the weights of one process that trains on the samples of all ranks.
# breaks: The encoder and the head that were given are to be trained, not copies.
import copy

import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = copy.deepcopy(encoder), copy.deepcopy(head)

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
