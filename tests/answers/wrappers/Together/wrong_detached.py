# misconception: detached
# breaks: The given parts end with the weights of one process that trains on the samples of all ranks.
# breaks: gradients must be able to flow through both
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs):
        embeddings = tuple(self.encoder(each) for each in inputs)
        return {"scores": self.head(*embeddings), "embeddings": tuple(each.detach() for each in embeddings)}
