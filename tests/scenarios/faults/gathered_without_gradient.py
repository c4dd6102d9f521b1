# kind: gradients_cut
# culprits: -
# ranks: 2
# Both encoders are compared with the rows of all ranks, which all_gather brings without a gradient. Only the
# temperature learns, and find_unused_parameters hides it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Pairs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sound = torch.nn.Linear(6, 4)
        self.picture = torch.nn.Linear(8, 4)
        self.temperature = torch.nn.Parameter(torch.zeros(()))

    def forward(self, sound, picture):
        return of_all(self.sound(sound)), of_all(self.picture(picture)), self.temperature.exp()


def of_all(rows):
    gathered = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, rows)
#~ mended -1 |    dist.all_gather(gathered, rows)
#~ |    gathered[dist.get_rank()] = rows
    return torch.cat(gathered)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Pairs(), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(6):
    sound, picture, temperature = model(torch.randn(5, 6), torch.randn(5, 8))
    scores = temperature * sound @ picture.T
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(scores, torch.arange(len(scores))).backward()
    optimizer.step()
dist.destroy_process_group()
