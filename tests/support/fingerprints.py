"""Fingerprints made up for tests, in the form that ranks send."""

import math
import zlib
from typing import Any

Entry = dict[str, Any]


def tensor(*values: float, shape: tuple[int, ...] | None = None, dtype: str = "float32") -> Entry:
    finite = [value for value in values if math.isfinite(value)]
    figures = (
        {
            "min": min(finite),
            "max": max(finite),
            "mean": sum(finite) / len(finite),
            "norm": math.sqrt(sum(value * value for value in finite)),
        }
        if finite
        else {}
    )
    return {
        "kind": "tensor",
        "shape": list(shape or (len(values),)),
        "dtype": dtype,
        "crc": zlib.crc32(repr(values).encode()),
        "count": len(values),
        "nan": sum(map(math.isnan, values)),
        "inf": sum(map(math.isinf, values)),
        "samples": [value if math.isfinite(value) else str(value) for value in values],
        **figures,
    }


def value(thing: object) -> Entry:
    entry: Entry = {"kind": "value", "text": repr(thing)}
    return {**entry, "number": thing} if isinstance(thing, int | float) else entry


def indices(*taken: int, dataset: int | None = None) -> Entry:
    crc = zlib.crc32(repr(taken).encode())
    return {"kind": "indices", "count": len(taken), "crc": crc, "dataset": dataset, "indices": list(taken)}


def part(name: str, entries: dict[str, Entry], kind: str = "") -> dict[str, Any]:
    return {"parts": {name: {"kind": kind or name, "entries": entries}}}


def module(**parameters: Entry) -> dict[str, Any]:
    return part("parameters", parameters)
