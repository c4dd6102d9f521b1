# misconception: hidden
import torch


class Together(torch.nn.Module):
    def __init__(self, encoder, head):
        self.parts = [encoder, head]
        super().__init__()

    def forward(self, pair):
        encoder, head = self.parts
        with torch.no_grad():
            first = encoder(pair[0])
        second = encoder(pair[1])
        return head((first, second)), first, second
