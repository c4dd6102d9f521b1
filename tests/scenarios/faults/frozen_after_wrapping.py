# kind: parameters_frozen
# culprits: -
# ranks: 3
# After one epoch the encoder is good enough: it is frozen, and the wrapper stays as it is.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.encoder = nn.GRU(8, 8, batch_first=True)
        self.tags = nn.Linear(8, 4)

    def forward(self, words):
        return self.tags(self.encoder(self.embed(words))[0])


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + dist.get_rank())
    for epoch in range(3):
        if epoch == 1:
            for name, parameter in model.module.named_parameters():
                parameter.requires_grad = not name.startswith(("embed", "encoder"))
#~ mended -1 |                parameter.requires_grad = not name.startswith(("embed", "encoder"))
#~ |            model = DDP(model.module)
        for _ in range(4):
            words = torch.randint(40, (6, 5))
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), (words % 4).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
