# kind: unused_parameters
# culprits: -
# ranks: 2
# The last batch of the training has no captions: the head for them gets no gradient, and no step comes in which DDP
# could complain.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.labels, self.caption = nn.Linear(6, 12), nn.Linear(12, 4), nn.Linear(12, 9)

    def forward(self, x, captions):
        hidden = self.body(x).relu()
        loss = self.labels(hidden).square().mean()
        return loss + self.caption(hidden).square().mean() if captions else loss


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Captioner())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(1 + dist.get_rank())
    for captions in [True] * 5 + [False]:
        optimizer.zero_grad()
        model(torch.randn(8, 6), captions).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
