"""Explorables that a page has without a kernel: what `explore` draws for each setting is recorded here.

What the notebook calls when a control is moved is called once for each setting, on real ranks where it runs some.
Sliders of many positions are thinned, and the page says so. Explorables that are not made by `explore` stay stills.
"""

from __future__ import annotations

import base64
import gzip
import inspect
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape, unescape
from importlib import import_module
from pathlib import Path
from typing import Any

import course_lib
from course_lib.lab.explorer import Declared, Explorer, buttons, explore, slider
from course_lib.lab.network import CAPS, MODELS, NETWORKS, Network, at_pace, draw_computed
from realranks.draw import Drawing
from realranks.draw.scripted import scripted
from tools.plan import BuildError

_CALL = re.compile(r"^(?:\w+\.)?(explore_\w+)\(", re.MULTILINE)
_WORDS = re.compile(r"\[to be played with in a running notebook: (.*?)\] \[")
#: The places of options that a page has, where all would take too long or too many bytes; it has the first one, too.
_THINNED: Mapping[str, Mapping[str, Sequence[int]]] = {
    "explore_deals": {"samples": (2, 7), "ranks": (1, 2), "epoch": (1,)},
    "explore_kills": {"kill_at": (0, 1, *range(500, 5500, 500), -22, -3, -2, -1)},
    "explore_lateness": {"delay": (8,), "every": (2, 4), "ranks": (0,)},
    "explore_collectives": {"root": (3,), "rank_0": (0,), "rank_1": (0,), "rank_2": (0,), "rank_3": ()},
    "explore_efficiency": {
        "computing": (3, 7),
        "gradients": (1, 5),
        "latency": (0, 6, 7),
        "bandwidth": (4, 7, 8),
        "buckets": (3, 5),
    },
}
#: Settings of an explorable, and bytes of its answers.
_MOST, _HEAVY = 1000, 280_000
_HERE = " (_THINNED in tools/site/explorables.py)"


@dataclass(frozen=True)
class _Control:
    """A control of the page.

    Attributes:
        kind: `radio`, `range` or `checkbox`.
        options: by the words on them, what the drawing function gets.
        first: the place of what is chosen at the beginning.
        thinned: whether the notebook has more options.
    """

    words: str
    kind: str
    options: Mapping[str, Any]
    first: int
    thinned: bool = False

    def html(self, group: str) -> str:
        if self.kind == "range":
            shown = escape([*self.options][self.first])
            return (
                f'<div><label for="{group}">{escape(self.words)}</label><input type="range" id="{group}" '
                f'max="{len(self.options) - 1}" value="{self.first}" aria-valuetext="{shown}">'
                f'<span aria-hidden="true">{shown}</span></div>'
            )
        if self.kind == "checkbox":
            checked = " checked" * self.first
            return f'<div><label><input type="checkbox"{checked}> {escape(self.words)}</label></div>'
        radios = "".join(
            f'<label><input type="radio" name="{group}"{" checked" * (place == self.first)}> {escape(option)}</label>'
            for place, option in enumerate(self.options)
        )
        return f"<fieldset><legend>{escape(self.words)}</legend>{radios}</fieldset>"


def alive(source: str, output: Mapping[str, Any], recorded: Collection[str] | None = None) -> str:
    """Return the HTML of the explorable that a cell shows in this output; '' if it shows none.

    Args:
        source: of the cell.
        output: as nbformat has it; its HTML is the still, its text says what can be played with.
        recorded: names of those whose settings are recorded, which takes up to a minute each; left out: all.

    Raises:
        BuildError: a setting cannot be recorded, or there are too many of them.
    """
    call = _CALL.search(source)
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items() if kind.startswith("text")}
    words = _WORDS.match(data.get("text/plain", ""))
    if not call or not words:
        return ""
    explorer = _declared(call[1]) if recorded is None or call[1] in recorded else None
    if explorer is None:
        return f'{data["text/html"]}<p class="recorded">Alive in the course: {escape(words[1])}.</p>'
    note, controls, answers = _record(call[1], explorer)
    find = f"<p><b>Find</b> {explorer.find}</p>" if explorer.find else ""
    form = "".join(control.html(f"{call[1]}-{number}") for number, control in enumerate(controls))
    return scripted(
        "recorded",
        words[1],
        900,
        f'{find}<form class="chooser" autocomplete="off" hidden>{form}</form>'
        f'<div class="shown">{data["text/html"]}</div>'
        f'<p class="read-aloud" aria-live="polite"></p><p class="recorded">{note}</p>',
        {"options": [[*control.options] for control in controls], "packed": answers},
        folder=Path(__file__).parent,
    )


def _declared(name: str) -> Declared | None:
    """Return the explorable of this name; None if it is not made by `explore`, or needs what its notebook has run."""
    make = _COMPUTED.get(name) or _defined(name)
    if any(each.default is each.empty for each in inspect.signature(make).parameters.values()):
        return None
    try:
        explorer = make()
    except RuntimeError as error:
        raise BuildError(f"{name} cannot be shown: {error}") from error
    return explorer if isinstance(explorer, Declared) else None


def _defined(name: str) -> Callable[..., Explorer]:
    folder = Path(course_lib.__file__).parent
    for path in folder.rglob("*.py"):
        if f"\ndef {name}(" in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            make: Callable[..., Explorer] = getattr(import_module(module), name)
            return make
    raise BuildError(f"{name} is not defined in course_lib")


def _record(name: str, explorer: Declared) -> tuple[str, Sequence[_Control], str]:
    """Draw every setting of this explorable.

    Returns:
        a note on what was recorded, the controls, and the answers, packed for recorded.js.
    """
    thinned = _THINNED.get(name, {})
    controls = [_control(each, control, thinned.get(each)) for each, control in explorer.chosen.items()]
    settings = [*itertools.product(*(control.options.values() for control in controls))]
    if len(settings) > _MOST:
        raise BuildError(f"{name} has {len(settings):,} settings: thin its sliders{_HERE}")

    def answer(setting: Sequence[object]) -> tuple[str, str]:
        chosen = dict(zip(explorer.chosen, setting, strict=True))
        for tries_left in (2, 1, 0):
            try:
                return _answer(explorer.draw(**chosen), name)
            except Exception as error:  # on a busy machine, ranks may not be ready in time
                if not tries_left:
                    raise BuildError(f"{name} with {chosen} cannot be recorded: {error!r}") from error
        raise AssertionError

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(answer, settings)]
    note = f"{len(settings):,} settings, recorded when this page was made."
    if fewer := [control.words for control in controls if control.thinned]:
        note += f" In the course there are more of: {escape(', '.join(fewer))}."
    packed = _packed(found)
    if len(packed) > _HEAVY:
        raise BuildError(f"The answers of {name} take {len(packed):,} bytes: thin its sliders{_HERE}")
    return f"{note}{_NOTES.get(name, '')}", controls, packed


def _control(name: str, control: Any, places: Sequence[int] | None) -> _Control:
    """Translate a control of the notebook; `places` are those of the options that the page has."""
    words = (control.description or name).rstrip(":")
    if hasattr(control, "options"):
        pairs = control.options.items() if isinstance(control.options, Mapping) else control.options
        options = [pair if isinstance(pair, tuple) else (str(pair), pair) for pair in pairs]
        kind = "radio" if hasattr(control, "button_style") else "range"
    elif isinstance(control.value, bool):
        options, kind = [("off", False), ("on", True)], "checkbox"
    else:
        options = [(str(number), number) for number in range(control.min, control.max + 1)]
        kind = "range"
    first = next(option for option in options if option[1] == control.value)
    kept = options
    if places is not None:
        chosen = {options[place] for place in places} | {first}
        kept = [option for option in options if option in chosen]
    return _Control(words, kind, dict(kept), kept.index(first), len(kept) < len(options))


def _answer(drawn: Any, name: str) -> tuple[str, str]:
    """Return the HTML of what was drawn, and what is read aloud of it."""
    shown, words = drawn if isinstance(drawn, tuple) else (drawn, "")
    if isinstance(shown, Drawing):
        html = shown.svg() + words
    else:
        # The strip for pages without a script weighs as much as all frames.
        html = words + re.sub(r"<img [^>]*>", "", shown.html())
    said = unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", "", words))
    html = re.sub(r'(="-?\d+\.\d)\d"', r'\1"', html)  # a hundredth of a pixel is not seen, but weighs
    # Only one answer is in sight at a time: what they have in common is equal.
    return re.sub(r"\bddp-[0-9a-f]{8}-", f"ddp-{name}-", html), f"{shown.title}. {said}".strip()


def _packed(found: Iterable[tuple[str, str]]) -> str:
    """Store equal answers once, and of all answers equal elements once."""
    answers: dict[tuple[str, str], int] = {}
    index = [answers.setdefault(each, len(answers)) for each in found]
    parts: dict[str, int] = {}
    data = {
        "answers": [
            [parts.setdefault(part, len(parts)) for part in re.split(r"(?=<|\\u003c)", html)]
            for html, _ in answers
        ],
        "index": index,
        "said": [said for _, said in answers],
        "parts": [*parts],
    }
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(written.encode(), mtime=0)).decode()


def _caps() -> Declared:
    """Return what lesson 04's explorer computes, without its measured rows and without a cap of the reader's own."""
    models = {"the lesson's (8 MiB)": None} | dict(MODELS)
    networks = {"latency and bandwidth below": None} | dict(NETWORKS)

    def draw(model: Any, network: Any, latency: int, bandwidth: int, layer: int) -> Drawing:
        network = network or Network(1e-3 * latency, bandwidth)
        return draw_computed(CAPS, network, model or at_pace(1e-3 * layer))

    return explore(
        draw,
        "model, network, latency, bandwidth, backward",
        model=buttons("model", models),
        network=buttons("network", networks),
        latency=slider("latency (ms)", (0, 8, 20), 8),
        bandwidth=slider("bandwidth (MiB per s)", (25, 100), 100),
        layer=slider("backward (ms per layer)", (1, 5), 5),
    )


_COMPUTED: Mapping[str, Callable[[], Declared]] = {"explore_caps": _caps}
_NOTES = {
    "explore_caps": " They are computed. In the course, two real ranks run every row of the lesson's own "
    "model, the last three have more positions, and you add a cap."
}
