# kind: none
# ranks: 2
# The trained model is copied, pickled, scripted and traced while DDP still wraps it.
import copy
import io
import pickle

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
x = torch.ones(2, 4)
expected = model.module(x)
file = io.BytesIO()
torch.save(model.module, file)
assert b"course" not in file.getvalue()
copies = [
    copy.deepcopy(model.module),
    pickle.loads(pickle.dumps(model.module)),
    torch.jit.script(model.module),
    torch.jit.trace(model.module, x),
    torch.export.export(model.module, (x,)).module(),
]
print([torch.equal(each(x), expected) for each in copies])
dist.destroy_process_group()
