# kind: none
# ranks: 2
# DiLoCo: inner steps are local, the outer optimizer steps on the averaged difference with momentum.
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    shared = [p.detach().clone().requires_grad_() for p in model.parameters()]
    inner = torch.optim.AdamW(model.parameters(), lr=0.01)
    outer = torch.optim.SGD(shared, lr=0.7, momentum=0.9, nesterov=True)
    torch.manual_seed(1 + dist.get_rank())
    for _round in range(4):
        for _ in range(11):
            inner.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            inner.step()
        for old, new in zip(shared, model.parameters(), strict=True):
            old.grad = old.detach() - new.detach()
            dist.all_reduce(old.grad)
            old.grad /= dist.get_world_size()
        outer.step()
        with torch.no_grad():
            for old, new in zip(shared, model.parameters(), strict=True):
                new.copy_(old)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
