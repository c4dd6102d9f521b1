# kind: output_not_seen
# culprits: -
# ranks: 2
# The model returns a dataclass, and the graph is declared static: no backward pass is ever averaged.
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Prediction:
    logits: torch.Tensor
    features: torch.Tensor
#~ mended -0 |torch.export.register_dataclass(Prediction)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.out = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x):
        features = self.features(x).relu()
        return Prediction(self.out(features), features)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Net(), static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 6)).logits, torch.randint(3, (8,))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
