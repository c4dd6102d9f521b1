"""Lesson 01: a model of nn.DataParallel for machines without GPUs; imported by ranks, needs torch.

The same four steps as PyTorch's, in real threads and with real gradients. Only the devices are pretended: they are
numbers, and each copy from one to another goes through `move`, which counts its bytes in `moved`.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from realranks.watch import buckets

#: Bytes that were copied, by (from, to).
moved: Counter[tuple[int, int]] = Counter()


def move(tensor: Tensor, source: int, target: int) -> Tensor:
    """Copy the tensor from one device to another; on the same device, return the tensor itself."""
    if source == target:
        return tensor
    moved[source, target] += tensor.nbytes
    return tensor.clone()


class Move(torch.autograd.Function):
    """`move`, and the gradient goes the same way back: `Scatter` and `Gather` in torch/nn/parallel/_functions.py."""

    @staticmethod
    def forward(ctx, tensor, source, target):  # type: ignore[no-untyped-def]
        """Copy the tensor."""
        ctx.way_back = target, source
        return move(tensor, source, target)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """Copy its gradient."""
        return move(gradient, *ctx.way_back), None, None


class Broadcast(torch.autograd.Function):
    """All weights to all devices; the gradients of all devices are added up on device 0. PyTorch has the same class."""

    @staticmethod
    def forward(ctx, devices, *weights):  # type: ignore[no-untyped-def]
        """Copy the weights once for each device, one device after the other."""
        ctx.count = len(weights)
        return tuple(move(weight, 0, device) for device in range(devices) for weight in weights)

    @staticmethod
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        """Add up the gradients of each weight over the devices."""
        of_device = [gradients[i : i + ctx.count] for i in range(0, len(gradients), ctx.count)]
        came = [[move(g, device, 0) for g in own] for device, own in enumerate(of_device)]
        return None, *(sum(parts) for parts in zip(*came, strict=True))


#: torch has no types for these two calls.
_broadcast: Callable[..., tuple[Tensor, ...]] = Broadcast.apply
_move: Callable[..., Tensor] = Move.apply


def scatter(batch: Tensor, devices: int) -> list[Tensor]:
    """Step 1: the parts of a batch, each on its device; there may be fewer parts than devices."""
    return [move(part, 0, device) for device, part in enumerate(batch.chunk(devices))]


def replicate(module: nn.Module, devices: int) -> list[nn.Module]:
    """Step 2: a copy of the model per device, with copied weights whose gradients go back to the original's."""
    names = [name for name, _ in module.named_parameters()]
    copies = _broadcast(devices, *module.parameters())
    replicas: list[nn.Module] = []
    for device in range(devices):
        replica = copy.deepcopy(module)
        of_device = copies[device * len(names) : (device + 1) * len(names)]
        for name, weight in zip(names, of_device, strict=True):
            path, _, last = name.rpartition(".")
            owner = replica.get_submodule(path)
            delattr(owner, last)
            setattr(owner, last, weight)
        replicas.append(replica)
    return replicas


def parallel_apply(replicas: Sequence[nn.Module], parts: Sequence[Tensor]) -> list[Tensor]:
    """Step 3: each copy is called with its part, in a thread of its own."""
    outputs: list[Tensor] = [torch.empty(0)] * len(parts)
    grad = torch.is_grad_enabled()  # a new thread begins with gradients switched on

    def work(device: int) -> None:
        with torch.set_grad_enabled(grad):
            outputs[device] = replicas[device](parts[device])

    threads = [threading.Thread(target=work, args=(d,), name=f"device {d}") for d in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outputs


def gather(outputs: Sequence[Tensor]) -> Tensor:
    """Step 4: the outputs of all devices, one below the other, on device 0."""
    return torch.cat([_move(output, device, 0) for device, output in enumerate(outputs)])


class ByHand(nn.Module):
    """A model of `nn.DataParallel(module)` on so many devices."""

    def __init__(self, module: nn.Module, devices: int) -> None:
        super().__init__()
        self.module, self.devices = module, devices

    def forward(self, batch: Tensor) -> Tensor:
        """Scatter, replicate, parallel_apply, gather."""
        parts = scatter(batch, self.devices)
        return gather(parallel_apply(replicate(self.module, len(parts)), parts))


def make_net(hidden: int = 256, outputs: int = 10) -> nn.Module:
    """Return a network with 64 inputs and a hidden layer; the same weights wherever it is called."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def a_batch(samples: int = 512, outputs: int = 10) -> tuple[Tensor, Tensor]:
    """Draw inputs and labels for `make_net`; the same wherever it is called."""
    torch.manual_seed(1)
    return torch.randn(samples, 64), torch.randint(outputs, (samples,))


def in_mib(held: dict[str, int]) -> int:
    """Return the sum of all that is held, in MiB, rounded."""
    return round(sum(held.values()) / 2**20)


class Kept:
    """A context that counts the bytes which autograd keeps of a forward for the backward, weights left out."""

    def __init__(self, weights: Iterable[Tensor] = ()) -> None:
        self._storages: dict[int, int] = {}
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._note, lambda tensor: tensor)

    def _note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def __enter__(self) -> Kept:
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)

    @property
    def bytes(self) -> int:
        """The number of bytes."""
        return sum(self._storages.values())


def held_by_ddp(net: nn.Module, batch: Tensor, labels: Tensor) -> dict[str, int]:
    """Return the bytes that this rank holds in a step with Adam, by purpose; `batch` is its own part."""
    ddp = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(ddp.parameters())
    with Kept(ddp.parameters()) as kept:
        outputs = ddp(batch)
    with Kept() as kept_by_loss:
        loss = nn.functional.cross_entropy(outputs, labels)
    loss.backward()
    optimizer.step()
    return {
        "weights": _total(ddp.parameters()),
        "gradients": _total(_gradients(ddp)),
        "DDP's buckets": sum(bucket.bytes for bucket in buckets(ddp).built),
        "Adam": _adam(optimizer),
        "kept by the layers": kept.bytes,
        "outputs and loss": outputs.nbytes + kept_by_loss.bytes,
    }


def held_by_data_parallel(
    net: nn.Module, batch: Tensor, labels: Tensor, devices: int
) -> list[dict[str, int]]:
    """Return the bytes that each device of `ByHand` holds, by purpose; `batch` is the whole batch."""
    optimizer = torch.optim.Adam(net.parameters())
    parts = scatter(batch, devices)
    replicas = replicate(net, devices)
    gradients: Counter[int] = Counter()
    kept, outputs = [], []
    for device, (replica, part) in enumerate(zip(replicas, parts, strict=True)):
        weights = [
            getattr(layer, name)
            for layer in replica.modules()
            for name in ("weight", "bias")
            if hasattr(layer, name)
        ]
        for weight in weights:
            weight.register_hook(
                lambda gradient, device=device: gradients.update({device: gradient.nbytes}) or gradient
            )
        with Kept(weights) as of_layers:
            outputs.append(replica(part))
        kept.append(of_layers.bytes)
    whole = gather(outputs)
    with Kept() as kept_by_loss:
        loss = nn.functional.cross_entropy(whole, labels)
    loss.backward()
    optimizer.step()
    held = [
        {
            "weights": _total(net.parameters()),
            "gradients": gradients[device],
            "Adam": 0,
            "kept by the layers": kept[device],
            "outputs and loss": outputs[device].nbytes,
        }
        for device in range(devices)
    ]
    held[0]["gradients"] += _total(_gradients(net))
    held[0]["Adam"] += _adam(optimizer)
    held[0]["outputs and loss"] += whole.nbytes + kept_by_loss.bytes
    return held


def _total(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _gradients(net: nn.Module) -> list[Tensor]:
    return [weight.grad for weight in net.parameters() if weight.grad is not None]


def _adam(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes of Adam's two numbers per weight, without its count of steps."""
    return sum(value.nbytes for state in optimizer.state.values() for value in state.values() if value.dim())
