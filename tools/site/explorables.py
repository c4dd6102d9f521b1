"""Explorables that a page has without a kernel: every picture that its controls can ask for is made here.

Sliders have fewer positions than in the notebook. What runs on ranks there is computed here, or was recorded while the
site was built, and the page says so.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from course_lib.lab.network import CAPS, MODELS, NETWORKS, Network, at_pace, draw_computed
from course_lib.lessons.dataparallel.lab import compared, ring, try_ring
from course_lib.lessons.scale.all_reduces import WAYS, step_through
from course_lib.lessons.scale.lab import ROUNDS, Job, draw_efficiency
from realranks.cells.run import run_quietly
from realranks.draw import Drawing
from realranks.draw.scripted import scripted

_CALL = re.compile(r"^(explore_\w+)\(", re.MULTILINE)
Choices = Mapping[str, Sequence[str]]


def explorable(source: str) -> str:
    """Return the HTML of the explorable that this cell shows; '' for none, or for one that needs real ranks."""
    made = _MAKERS.get(call[1]) if (call := _CALL.search(source)) else None
    return made() if made else ""


def _pictures(
    label: str, note: str, choices: Choices, draw: Callable[..., Drawing], first: Sequence[int]
) -> str:
    """Return a control for each choice, and the drawing of what is chosen.

    Args:
        draw: gets the place of each choice among its options.
        first: what is chosen at the beginning.
    """
    found: dict[str, int] = {}
    said: dict[int, str] = {}
    index: list[int] = []
    for places in itertools.product(*(range(len(options)) for options in choices.values())):
        drawing = draw(*places)
        number = found.setdefault(drawing.svg(), len(found))
        said[number] = drawing.title
        index.append(number)
    packed = gzip.compress(json.dumps([*found]).encode(), mtime=0)
    data = {
        "choices": [{"name": name, "options": [*options]} for name, options in choices.items()],
        "first": [*first],
        "index": index,
        "said": [said[number] for number in range(len(found))],
        "packed": base64.b64encode(packed).decode(),
    }
    return f"<p>{note}</p>" + _with(label, draw(*first).html(), data)


def _panels(label: str, note: str, panels: Mapping[str, str], names: Sequence[str]) -> str:
    """Return a selector of HTML panels, by what is chosen for each name, joined by `|`."""
    keys = [key.split("|") for key in panels]
    options = [list(dict.fromkeys(key[place] for key in keys)) for place in range(len(names))]
    data = {
        "choices": [{"name": name, "options": each} for name, each in zip(names, options, strict=True)],
        "first": [0] * len(names),
    }
    inside = "".join(
        f'<div data-panel="{escape(key)}"{"" if number == 0 else " hidden"}>{html}</div>'
        for number, (key, html) in enumerate(panels.items())
    )
    return f"<p>{note}</p>" + _with(label, "", data) + inside


def _with(label: str, image: str, data: object) -> str:
    return scripted("chooser", label, 900, image, data, folder=Path(__file__).parent)


def _caps() -> str:
    latency, bandwidth, layer = (0, 2, 5, 8, 12, 20), (25, 50, 100, 200, 400, 1000), (1, 2, 5, 10)
    choices = {
        "model": ["the lesson's (8 MiB)", *MODELS],
        "network": ["latency and bandwidth below", *NETWORKS],
        "latency (ms)": [*map(str, latency)],
        "bandwidth (MiB per s)": [*map(str, bandwidth)],
        "backward (ms per layer)": [*map(str, layer)],
    }

    def draw(model: int, carrier: int, slow: int, wide: int, pace: int) -> Drawing:
        network = [Network(1e-3 * latency[slow], bandwidth[wide]), *NETWORKS.values()][carrier]
        return draw_computed(CAPS, network, [at_pace(1e-3 * layer[pace]), *MODELS.values()][model])

    note = "Computed. In the notebook, two real ranks run every row of the lesson's own model, and you add a cap."
    return _pictures("When does DDP send what?", note, choices, draw, (0, 0, 3, 2, 2))


def _efficiency() -> str:
    computing, gradients, latency = (10, 50, 200, 1000), (10, 100, 1000), (0, 10, 100, 1000)
    bandwidth, overlap = (1.25, 12.5, 33, 50, 300, math.inf), (0, 50, 100)
    choices = {
        "computing on one rank (ms)": [*map(str, computing)],
        "gradients (MB)": [*map(str, gradients)],
        "latency of a round (µs)": [*map(str, latency)],
        "bandwidth (GB/s)": [*map(str, bandwidth[:-1]), "without end"],
        "backward that hides sending (%)": [*map(str, overlap)],
        "rounds": [*ROUNDS],
    }

    def draw(own: int, size: int, slow: int, wide: int, hidden: int, way: int) -> Drawing:
        network = latency[slow] / 1e6, bandwidth[wide] * 1e9
        return draw_efficiency(
            Job(computing[own] / 1e3, gradients[size] * 1e6, *network, overlap[hidden] / 100, [*ROUNDS][way])
        )

    return _pictures(
        "How well do ranks scale?", "Computed, as in the notebook.", choices, draw, (1, 1, 1, 2, 0, 0)
    )


def _all_reduces() -> str:
    panels = {f"{way}|{ranks}": step_through(way, ranks).html() for way in WAYS for ranks in (4, 8)}
    return _panels(
        "Five ways to make an all-reduce",
        "In the notebook, real ranks run each of them.",
        panels,
        ("way", "ranks"),
    )


def _rings() -> str:
    panels = {}
    for ranks in (2, 3, 4, 5, 6):
        values = run_quietly(try_ring, ranks=ranks, backend="gloo").values
        states = {rank: values[rank]["states"] for rank in sorted(values)}
        panels[str(ranks)] = compared(values) + ring(states).html()
    return _panels(
        "A ring, chunk by chunk", "Recorded on real ranks when this page was made.", panels, ("ranks",)
    )


_MAKERS: Mapping[str, Callable[[], str]] = {
    "explore_caps": _caps,
    "explore_efficiency": _efficiency,
    "explore_all_reduces": _all_reduces,
    "explore_rings": _rings,
}
