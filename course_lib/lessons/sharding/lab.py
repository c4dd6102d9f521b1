"""Lesson 17: what a rank holds under DDP, ZeRO and FSDP2, and which layers are whole when; its pictures and answers.

What begins with "Runs on a rank" imports torch where it is called; the rest runs in the kernel, without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.lab.explorer import Explorer, explore, slider, tick
from course_lib.lessons.sharding.tasks.measures import WhichAreWhole, bytes_of, state_of
from course_lib.lessons.sharding.tasks.measures import counting as counting
from course_lib.tasks.weights import drawn
from realranks.draw import Arrow, Box, Drawing, Text
from realranks.draw.drawing import Shape, text_width
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn

_WIDTH = 64
_ROWS = 8


# --- on the ranks ----------------------------------------------------------------------------------------------------


def network(layers: int, seed: int = 0) -> nn.Sequential:
    """Make so many linear layers of 64 x 64, with the same weights wherever the seed is the same."""
    import torch

    torch.manual_seed(seed)
    return torch.nn.Sequential(*[torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(layers)])


def batch(step: int) -> Tensor:
    """Return this rank's rows of a step's batch."""
    import torch.distributed as dist

    mine = slice(_ROWS * dist.get_rank(), _ROWS * (dist.get_rank() + 1))
    return _whole_batch(step, dist.get_world_size())[mine]


def _whole_batch(step: int, ranks: int) -> Tensor:
    return drawn(step, _ROWS * ranks, _WIDTH)


def held(model: nn.Module, optimizer: object) -> list[float]:
    """Return the bytes per parameter that this rank holds as weights, gradients and optimizer state."""
    parameters = list(model.parameters())
    parts = (parameters, [p.grad for p in parameters], state_of(optimizer))
    return [round(bytes_of(tensors) / sum(p.numel() for p in parameters), 2) for tensors in parts]


def trained_alone(steps: int, layers: int) -> nn.Sequential:
    """Train the network for so many steps of Adam in one process, on the batches of all ranks."""
    import torch
    import torch.distributed as dist

    model = network(layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        model(_whole_batch(step, dist.get_world_size())).square().mean().backward()
        optimizer.step()
    return model


#: How the five layers of a network are sharded.
WAYS = ("per layer", "reshard_after_forward=False", "root only")
_LAYERS = 5


def three_ways() -> dict[str, tuple[dict[str, int], list[tuple[str, int, list[bool]]]]]:
    """Return, by the kind of sharding, the calls of one step, and which layers are whole at each moment."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, found = init_device_mesh("cpu", (dist.get_world_size(),)), {}
    for way in WAYS:
        model = network(_LAYERS)
        if way != "root only":
            for layer in model:
                fully_shard(layer, mesh=mesh, reshard_after_forward=way == "per layer")
        fully_shard(model, mesh=mesh)
        seen, rows = WhichAreWhole(list(model)), batch(0).requires_grad_()
        with counting() as calls:
            model(rows).square().mean().backward()
        found[way] = (calls, seen.moments)
    return found


# --- what is asked ---------------------------------------------------------------------------------------------------


def calls_are(**counts: int) -> Callable[[Outcome], bool]:
    """Predict how often rank 0 has called these collectives, and that it called no others."""
    wanted = {name.replace("_", "-"): count for name, count in counts.items()}
    return lambda outcome: outcome.ok and outcome["calls"][0] == wanted


# --- bytes -----------------------------------------------------------------------------------------------------------

#: The parts of a training, with the looks that they have in all pictures here.
PARTS = {"weights": "forward", "gradients": "backward", "optimizer": "optimizer"}
#: What each stage cuts into as many pieces as there are ranks.
STAGES = {
    "DDP": (),
    "ZeRO 1": ("optimizer",),
    "ZeRO 2": ("gradients", "optimizer"),
    "ZeRO 3": ("weights", "gradients", "optimizer"),
}
_GPU = 80


def bytes_a_parameter(stage: str, ranks: int, mixed: bool = False) -> dict[str, float]:
    """Return, by part, the bytes per parameter that each rank holds with Adam.

    Args:
        mixed: as in the ZeRO paper: weights and gradients in 2 bytes; the optimizer has the weights in 4, too.
    """
    sizes = (2, 2, 12) if mixed else (4, 4, 8)
    return {
        part: size / (ranks if part in STAGES[stage] else 1) for part, size in zip(PARTS, sizes, strict=True)
    }


def draw_stages(ranks: int = 4) -> Drawing:
    """Draw for each stage what each rank holds of weights, gradients and optimizer, and what it does not."""
    left, column, gap, unit = 92.0, 30.0, 42.0, 8.0
    heights = {name: unit * size for name, size in bytes_a_parameter("DDP", ranks).items()}
    shapes: list[Shape] = []
    y = 24.0
    for name, height in heights.items():
        shapes.append(Text(left - 12, y + height / 2 + 4, name, 13, "end"))
        y += height
    x = left
    for stage, cut in STAGES.items():
        width = ranks * column
        shapes.append(Text(x + width / 2, 15, stage, 13, "middle", bold=True))
        for rank in range(ranks):
            y = 24.0
            for name, height in heights.items():
                piece = height / ranks if name in cut else height
                top = y + rank * piece if name in cut else y
                shapes += [
                    Box(x, y, column - 4, height, dashed=True, edge=0.75),
                    Box(x, top, column - 4, piece, PARTS[name]),
                ]
                y += height
            shapes.append(Text(x + column / 2 - 2, y + 16, str(rank), 12, "middle"))
            x += column
        x += gap
    shapes.append(Text(left - 12, y + 16, "rank", 12, "end"))
    alt = (
        f"{ranks} ranks, four times. DDP: every rank has all weights, gradients and all of the optimizer's state. "
        f"ZeRO 1: of the optimizer's state each rank has another one of {ranks} pieces. ZeRO 2: of the gradients, too. "
        "ZeRO 3: of everything."
    )
    return Drawing(760, y + 26, tuple(shapes), alt, "What each rank holds; dashed is what others hold for it")


@dataclass(frozen=True)
class Setting:
    """The settings of the bars: a model's size in billions of parameters, ranks, and precision."""

    billions: float = 7.0
    ranks: int = 8
    mixed: bool = False

    def gigabytes(self, stage: str) -> dict[str, float]:
        """Return, by part, what a rank holds."""
        sizes = bytes_a_parameter(stage, self.ranks, self.mixed)
        return {name: self.billions * size for name, size in sizes.items()}


def draw_gigabytes(setting: Setting) -> Drawing:
    """Draw a bar for each stage: what a rank holds, beside the memory of a GPU."""
    totals = {stage: sum(setting.gigabytes(stage).values()) for stage in STAGES}
    left = 76.0
    scale = 560 / max(*totals.values(), 1.25 * _GPU)
    shapes: list[Shape] = []
    y = 6.0
    for stage, total in totals.items():
        shapes.append(Text(left - 10, y + 20, stage, 13, "end"))
        x = left
        for name, size in setting.gigabytes(stage).items():
            shapes.append(Box(x, y, size * scale, 28, PARTS[name], hint=f"{name}: {size:.1f} GB", edge=0.75))
            x += size * scale
        words = f"{total:.1f} GB" if total < 1000 else f"{total:,.0f} GB"
        shapes.append(Text(x + 8, y + 20, words, 13, bold=total <= _GPU))
        y += 40
    line = left + _GPU * scale
    shapes += [
        Arrow(line, 0, line, y, 2, plain=True),
        Text(line, y + 14, f"a GPU of {_GPU} GB", 12, "middle"),
    ]
    x = left
    for name, look in PARTS.items():
        shapes += [Box(x, y + 24, 14, 14, look), Text(x + 20, y + 36, name)]
        x += 44 + text_width(name)
    precision = "mixed precision" if setting.mixed else "float32"
    ranks = f"{setting.ranks:,} ranks" if setting.ranks > 1 else "1 rank"
    model = f"{setting.billions:g} billion parameters, Adam, {precision}, {ranks}"
    fits = [stage for stage, total in totals.items() if total <= _GPU]
    title = f"{model}: {'fits with ' + ', '.join(fits) if fits else 'does not fit'}"
    alt = f"{title}. {'; '.join(f'{stage}: {total:.1f} GB' for stage, total in totals.items())}."
    return Drawing(760, y + 44, tuple(shapes), alt, title)


def explore_stages() -> Explorer:
    """Return controls for the model, the ranks and the precision; the bars are what a rank holds."""
    first = Setting()
    return explore(
        lambda billions, ranks, mixed: draw_gigabytes(Setting(billions, ranks, mixed)),
        "billions of parameters, ranks, and mixed precision",
        "the number of ranks from which ZeRO 1 fits; a model that fits on 1,024 ranks with ZeRO 3 only; and the "
        "setting of the ZeRO paper's first figure, whose bars say 120, 31.4, 16.6 and 1.9 GB.",
        billions=slider(
            "billions:", [0.1, 0.5, 1.0, 3.0, 7.0, 7.5, 13.0, 30.0, 70.0, 400.0], first.billions, "5em"
        ),
        ranks=slider("ranks:", [2**k for k in range(11)], first.ranks, "5em"),
        mixed=tick("mixed precision, as in the ZeRO paper", first.mixed),
    )


# --- which layers are whole ------------------------------------------------------------------------------------------

_Found = Mapping[str, tuple[Mapping[str, int], Sequence[tuple[str, int, Sequence[bool]]]]]


def draw_whole(found: _Found) -> Drawing:
    """Draw, for each way to shard, when (column) each layer (row) is whole."""
    side, left, gap = 19.0, 62.0, 34.0
    most = {way: max(sum(whole) for *_, whole in moments) for way, (_, moments) in found.items()}
    layers = len(next(iter(found.values()))[1][0][2])
    shapes: list[Shape] = [
        Text(left - 8, 40 + side * (number + 0.5) + 4, f"layer {number}", 12, "end")
        for number in range(layers)
    ]
    x, texts = left, []
    bottom = 40 + layers * side
    for way, (calls, moments) in found.items():
        width = side * len(moments)
        shapes.append(Text(x, 14, way, 12, bold=True, mono="=" in way))
        for column, (direction, at, whole) in enumerate(moments):
            for number in range(layers):
                look = direction if whole[number] else "plain"
                box = Box(x + column * side, 40 + number * side, side, side, look, edge=0.75)
                shapes.append(box)
            shapes.append(
                Text(x + (column + 0.5) * side, 34, f"{direction[0].upper()}{at}", 11, "middle", faint=True)
            )
        shapes += [
            Text(x, bottom + 18 + 16 * line, f"{count} {name}{'s' if count > 1 else ''}", 12)
            for line, (name, count) in enumerate(calls.items())
        ]
        said = ", ".join(f"{count} {name}" for name, count in calls.items())
        texts.append(f"{way}: at most {most[way]} of {layers} whole at once; {said}")
        x += width + gap
    title = f"Whole at once, at most: {', '.join(map(str, most.values()))} of {layers} layers"
    alt = f"Columns: forward (F) and backward (B) of each layer; filled where a layer is whole. {'. '.join(texts)}."
    return Drawing(760, bottom + 44, tuple(shapes), alt, title)
