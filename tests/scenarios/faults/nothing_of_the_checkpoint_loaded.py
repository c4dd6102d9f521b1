# kind: state_dict_names
# culprits: -
# ranks: 2
# Saved from the DDP wrapper, loaded with strict=False into a model with another head: not one name fits.
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = torch.nn.Linear(4, 8)
        self.head = torch.nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def train(net, classes):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        torch.nn.functional.cross_entropy(model(x), x.argmax(1) % classes).backward()
        optimizer.step()
    return model


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
path = os.path.join(tempfile.gettempdir(), f"pretrained_{os.environ['MASTER_PORT']}.pt")
pretrained = train(Net(4), 4)
if dist.get_rank() == 0:
    torch.save(pretrained.state_dict(), path)
#~ mended -1 |    torch.save(pretrained.module.state_dict(), path)
dist.barrier()
net = Net(2)
net.load_state_dict({k: v for k, v in torch.load(path).items() if "head" not in k}, strict=False)
dist.barrier()
if dist.get_rank() == 0:
    os.remove(path)
train(net, 2)
dist.destroy_process_group()
