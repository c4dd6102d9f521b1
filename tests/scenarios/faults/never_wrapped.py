# kind: nothing_distributed
# culprits: -
# ranks: 2
# There is a process group and a barrier at the end; the model was never wrapped.
import torch
import torch.distributed as dist


def train(model, rank):
    generator = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x = torch.randn(8, 4, generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1000 + rank)
    model = torch.nn.Linear(4, 1)
#~ mended -1 |    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    train(model, rank)
    dist.barrier()
    if rank == 0:
        print("saved", len(model.state_dict()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
