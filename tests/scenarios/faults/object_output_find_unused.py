# kind: output_not_seen
# culprits: -
# ranks: 2
# forward() returns an object of the project's own class, and find_unused_parameters=True is on.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Detections:
    def __init__(self, boxes, scores):
        self.boxes, self.scores = boxes, scores


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.boxes, self.scores = nn.Linear(6, 12), nn.Linear(12, 4), nn.Linear(12, 1)

    def forward(self, x):
        hidden = self.body(x).relu()
        return Detections(self.boxes(hidden), self.scores(hidden))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Detector(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(4):
        found = model(torch.randn(8, 6))
        loss = found.boxes.abs().mean() + nn.functional.softplus(-found.scores).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
