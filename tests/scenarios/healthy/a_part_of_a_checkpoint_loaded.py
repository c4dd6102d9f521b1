# kind: none
# ranks: 2
# Of a checkpoint of the wrapper the prefix is taken away, and the head is not loaded; then only adapters are.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = torch.nn.Linear(4, 8)
        self.adapter = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, classes)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.head(hidden + self.adapter(hidden))


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
saved = train(Net(4), 4).state_dict()
net = Net(2)
net.load_state_dict(
    {name.removeprefix("module."): each for name, each in saved.items() if "head" not in name}, strict=False
)
net.load_state_dict(
    {name: each for name, each in net.state_dict().items() if "adapter" in name}, strict=False
)
train(net, 2)
dist.destroy_process_group()
