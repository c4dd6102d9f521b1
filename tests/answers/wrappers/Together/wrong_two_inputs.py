# misconception: fixed_number
# breaks: it is called with one or more batches
# breaks: Calls `encoder` on each input
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, first, second):
        embeddings = tuple(self.encoder(each) for each in (first, second))
        return {"scores": self.head(*embeddings), "embeddings": embeddings}
