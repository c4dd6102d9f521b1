# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# The student is called past its wrapper; the teacher, wrapped too, is never trained and stays equal.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    teacher, student = DDP(torch.nn.Linear(4, 2)), DDP(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(6):
        x = torch.randn(8, 4)
        with torch.no_grad():
            target = teacher.module(x)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(student.module(x), target + 1).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
