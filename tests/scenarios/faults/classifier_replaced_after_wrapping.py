# kind: parameters_replaced
# culprits: -
# ranks: 2
# Fine-tuning: the pretrained network is wrapped, and then gets a classifier for the new labels.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Pretrained(nn.Module):
    def __init__(self, classes=100):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.classifier = nn.Linear(16, classes)

    def forward(self, images):
        return self.classifier(self.features(images))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 6), torch.randint(5, (64,)))
    sampler = DistributedSampler(data)
    model = DDP(Pretrained())
    model.module.classifier = nn.Linear(16, 5)
#~ mended -2 |    net = Pretrained()
#~ |    net.classifier = nn.Linear(16, 5)
#~ |    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(data, 8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
