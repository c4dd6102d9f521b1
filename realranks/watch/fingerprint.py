"""Fingerprints of a rank's model, optimizer, sampler or random generator, small enough to be sent.

Runs inside a rank; imports torch only inside functions. A fingerprint is JSON-able:

    {"parts": {"parameters": {"kind": "parameters", "entries": {"fc.weight": {...}, ...}}, "buffers": ...}}

What an entry holds is in `digest`; `compare` tells what differs between the fingerprints of several ranks.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypedDict

from realranks.watch.digest import Entry, generator_entry, rng_entries, tensor_entry, value_entry

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.utils.data import DataLoader, Sampler


class PartRecord(TypedDict):
    """One part, such as the parameters of a module: what kind of part it is, and its entries by name."""

    kind: str
    entries: dict[str, Entry]


class Fingerprint(TypedDict):
    """A thing on one rank in a form small enough to send; the names of parts are unique."""

    parts: dict[str, PartRecord]


#: A sampler's indices are listed up to this many; of the rest, their number and a checksum are kept.
LISTED_INDICES = 20_000
#: Where an endless sampler is cut off.
_MAX_INDICES = 10_000_000
_PLAIN = (int, float, complex, str, bytes, type(None))


def fingerprint(thing: object) -> Fingerprint:
    """Describe a thing, or a dict or list of things, as it is on this rank now.

    Known: modules (a DDP wrapper counts as what it wraps, names without `module.`), optimizers, samplers (and the
    sampler of a `DataLoader`), `torch.Generator`, `random.Random` and `numpy.random.Generator`, the string `"rng"` for
    the global generators, tensors, numbers and strings, and whatever else has a `state_dict()`. Nothing is changed: a
    sampler is iterated, but the generators it draws from are put back.

    Raises:
        TypeError: a thing of no known sort.
    """
    parts: dict[str, PartRecord] = {}
    _collect(thing, "", parts)
    return {"parts": parts}


def merged(named: Mapping[str, Fingerprint]) -> Fingerprint:
    """Merge named fingerprints into that of a dict with these things."""
    return {
        "parts": {
            part_name(name, part): content
            for name, found in named.items()
            for part, content in found["parts"].items()
        }
    }


def part_name(owner: str, part: str) -> str:
    """Name a part as `model parameters`; a lone value has its owner's name, and `sampler` is not repeated."""
    if part == "value" and owner:
        return owner
    return owner if owner.rpartition(".")[2] == part else f"{owner} {part}".strip()


def _collect(thing: object, owner: str, parts: dict[str, PartRecord]) -> None:
    import torch

    def add(part: str, entries: dict[str, Entry]) -> None:
        parts[part_name(owner, part)] = {"kind": part, "entries": entries}

    if isinstance(thing, torch.nn.Module):
        for part, entries in _module_parts(thing).items():
            add(part, entries)
    elif isinstance(thing, torch.optim.Optimizer):
        for part, entries in _optimizer_parts(thing).items():
            add(part, entries)
    elif isinstance(thing, torch.utils.data.Sampler | torch.utils.data.DataLoader):
        add("sampler", {"indices": _sampler_entry(thing)})
    elif isinstance(thing, str) and thing == "rng":
        add("rng", rng_entries())
    elif isinstance(thing, Mapping | list | tuple):
        _collect_many(thing, owner, parts)
    elif (entry := _leaf(thing)) is not None:
        add("value", {"": entry})
    elif callable(state_dict := getattr(thing, "state_dict", None)):
        add("state", dict(_flat(state_dict(), "")))
    else:
        raise TypeError(
            f"A fingerprint is taken of modules, optimizers, samplers, generators, tensors, or things with a "
            f"state_dict(), not of a {type(thing).__name__}."
        )


def _collect_many(
    thing: Mapping[object, object] | Sequence[object], owner: str, parts: dict[str, PartRecord]
) -> None:
    """Collect the entries: tensors and numbers side by side form one part, everything else parts of its own."""
    items = thing.items() if isinstance(thing, Mapping) else enumerate(thing)
    values: dict[str, Entry] = {}
    for key, content in items:
        entry = None if isinstance(content, str) and content == "rng" else _leaf(content)
        if entry is not None:
            values[str(key)] = entry
        else:
            _collect(content, f"{owner}.{key}" if owner else str(key), parts)
    if values:
        parts[part_name(owner, "values")] = {"kind": "values", "entries": values}


def _leaf(thing: object) -> Entry | None:
    """Record a thing that makes a single entry, or return None."""
    import torch

    if isinstance(thing, torch.Tensor):
        return tensor_entry(thing)
    if isinstance(thing, _PLAIN):
        return value_entry(thing)
    if hasattr(thing, "__array__"):
        return tensor_entry(torch.as_tensor(thing))
    return generator_entry(thing)


def _flat(thing: object, name: str) -> Iterator[tuple[str, Entry]]:
    """Yield the leaves of nested dicts and lists with their dotted names."""
    if isinstance(thing, Mapping | list | tuple):
        items = thing.items() if isinstance(thing, Mapping) else enumerate(thing)
        for key, content in items:
            yield from _flat(content, f"{name}.{key}" if name else str(key))
    else:
        yield name, _leaf(thing) or value_entry(thing)


# -- modules ------------------------------------------------------------------------------------------------------


def _module_parts(module: nn.Module) -> dict[str, dict[str, Entry]]:
    plain = _names_without_wrappers(module)
    parameters: dict[str, Entry] = {}
    gradients: dict[str, Entry] = {}
    first_names: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        name = plain(name)
        if id(parameter) in first_names:
            parameters[name] = {"kind": "tied", "to": first_names[id(parameter)]}
            continue
        first_names[id(parameter)] = name
        parameters[name] = tensor_entry(parameter)
        if parameter.grad is not None:
            gradients[name] = tensor_entry(parameter.grad)
        else:
            gradients[name] = {"kind": "none" if parameter.requires_grad else "frozen"}
    buffers = {
        plain(name): tensor_entry(buffer) for name, buffer in module.named_buffers(remove_duplicate=False)
    }
    return {"parameters": parameters, "buffers": buffers, "gradients": gradients}


def _names_without_wrappers(module: nn.Module) -> Callable[[str], str]:
    """Return a function that removes the `module.` of DDP wrappers, at any depth, from a name."""
    from torch.nn.parallel import DistributedDataParallel

    inner = {
        f"{name}.module" if name else "module"
        for name, part in module.named_modules()
        if isinstance(part, DistributedDataParallel)
    }

    def plain(name: str) -> str:
        steps = name.split(".")
        return ".".join(
            step for place, step in enumerate(steps, start=1) if ".".join(steps[:place]) not in inner
        )

    return plain


# -- optimizers ---------------------------------------------------------------------------------------------------


def _optimizer_parts(optimizer: Optimizer) -> dict[str, dict[str, Entry]]:
    """Return the state by `parameter index.state name`, and the options of each parameter group."""
    state: dict[str, Entry] = {}
    options: dict[str, Entry] = {}
    number = itertools.count()
    several = len(optimizer.param_groups) > 1
    for place, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            index = next(number)
            # `state` is a defaultdict: asking for what is not there would put it there.
            if parameter in optimizer.state:
                state.update(_flat(optimizer.state[parameter], str(index)))
        prefix = f"group {place}: " if several else ""
        for name, value in group.items():
            if name not in ("params", "param_names"):
                options[f"{prefix}{name}"] = _leaf(value) or value_entry(value)
        options[f"{prefix}parameters"] = value_entry(len(group["params"]))
    return {"state": state, "options": options}


# -- samplers -----------------------------------------------------------------------------------------------------


def _sampler_entry(thing: Sampler[object] | DataLoader[object]) -> Entry:
    import torch

    sampler: Iterable[object] = thing
    if isinstance(thing, torch.utils.data.DataLoader):
        if isinstance(thing.dataset, torch.utils.data.IterableDataset):
            raise TypeError("A loader of an IterableDataset has no sampler.")
        sampler = thing.sampler if thing.batch_sampler is None else thing.batch_sampler
    indices = _indices(sampler)
    entry: Entry = {"kind": "indices", "count": len(indices), "dataset": _dataset_size(sampler)}
    entry["crc"] = zlib.crc32(_bytes(indices))
    if len(indices) <= LISTED_INDICES:
        entry["indices"] = indices
    return entry


def _bytes(indices: list[int | str]) -> bytes:
    numbers = [index for index in indices if isinstance(index, int)]
    if len(numbers) == len(indices):
        with contextlib.suppress(OverflowError):  # more than 64 bits
            return array("q", numbers).tobytes()
    return repr(indices).encode()


def _indices(sampler: Iterable[object]) -> list[int | str]:
    """List what a sampler would yield, as numbers if possible, with batches flattened."""
    with _generators_put_back(sampler):
        found: list[object] = []
        for index in itertools.islice(copy.copy(sampler), _MAX_INDICES):
            if isinstance(index, list | tuple):
                found.extend(index)
            else:
                found.append(index)
    return [int(index) if isinstance(index, SupportsIndex) else repr(index) for index in found]


@contextlib.contextmanager
def _generators_put_back(sampler: object) -> Iterator[None]:
    import torch

    numpy_random = sys.modules.get("numpy.random")
    inner = getattr(sampler, "sampler", None)
    own = [getattr(part, "generator", None) for part in (sampler, inner)]
    states = [(one, one.get_state()) for one in own if isinstance(one, torch.Generator)]
    python = random.getstate()
    numbers = numpy_random.get_state() if numpy_random else None
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for one, state in states:
            one.set_state(state)
        random.setstate(python)
        if numpy_random:
            numpy_random.set_state(numbers)


def _dataset_size(sampler: object) -> int | None:
    for part in (sampler, getattr(sampler, "sampler", None)):
        for name in ("dataset", "data_source"):
            with contextlib.suppress(Exception):
                return len(getattr(part, name))
    return None
