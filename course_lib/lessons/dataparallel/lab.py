"""Lesson 01: the two schemes as a picture, the ring step by step, what is held, what predictions ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from course_lib.lab.explorer import Explorer, buttons, explore
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Bar, Box, Drawing, Frame, Lane, Stepper, Text, lanes
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Outcome
from realranks.watch.tcp_bytes import bytes_sent

#: What a device or rank holds, in the order in which it is drawn.
_HELD = {
    "weights": "forward",
    "gradients": "backward",
    "DDP's buckets": "waiting",
    "Adam": "optimizer",
    "kept by the layers": "even",
    "outputs and loss": "communication",
}
_MIB = 2**20
#: How large the tensor is whose all-reduce is measured: large enough for headers not to count.
_MEASURED_BYTES = 2 * _MIB


def one_step(devices: int = 4) -> Drawing:
    """Draw a forward of DataParallel in one process beside one of DDP in as many processes."""
    shapes = [*_data_parallel(8, devices), *_ddp(396, devices)]
    shapes.append(Arrow(382, 8, 382, 318, 0.5, plain=True, faint=True))
    return Drawing(
        760,
        322,
        tuple(shapes),
        "Left, DataParallel: in one process, device 0 has the batch and the model. Scatter and replicate copy parts of "
        f"the batch and the whole model to {devices} devices, each copy is called in a thread of its own, and gather "
        f"brings all outputs back to device 0, where the loss is computed. Right, DDP: {devices} processes, each with "
        "its own part of the batch, its model and its loss; an all-reduce in backward averages the gradients.",
        "One process that drives all devices, or one process per device",
    )


def _data_parallel(left: float, devices: int) -> list[Shape]:
    width, between = 82.0, 12.0
    middles = [left + device * (width + between) + width / 2 for device in range(devices)]
    right = middles[-1] + width / 2
    shapes: list[Shape] = [
        Text((left + right) / 2, 14, "DataParallel: one process", 13, "middle", bold=True),
        *(Text(x, 36, f"device {device}", 12, "middle") for device, x in enumerate(middles)),
        Box(left, 44, 40, 28, "plain", "batch", size=11),
        Box(left + 42, 44, 40, 28, "even", "model", size=11),
        Text(right, 56, "1 scatter the batch", 12, "end"),
        Text(right, 72, "2 replicate the model", 12, "end"),
        Box(left, 186, right - left, 26, "even", "3 parallel_apply: a thread per device", size=12),
        Text(right, 296, "4 gather the outputs", 12, "end"),
        Box(left, 274, 130, 28, "plain", "all outputs, loss", edge=2),
    ]
    for device, x in enumerate(middles):
        shapes += [
            Arrow(middles[0], 73, x, 120, 1.2),
            Box(x - width / 2, 122, 40, 28, f"rank {device % 4}", "part", size=11),
            Box(x - width / 2 + 42, 122, 40, 28, "even", "copy", size=11),
            Arrow(x, 151, x, 184, 1.2),
            Arrow(x, 213, x, 224, 1.2),
            Box(x - width / 2, 226, width, 26, f"rank {device % 4}", "outputs", size=11),
            Arrow(x, 253, middles[0] + 12 * device, 272, 1.2),
        ]
    return shapes


def _ddp(left: float, ranks: int) -> list[Shape]:
    width, between = 82.0, 10.0
    middles = [left + rank * (width + between) + width / 2 for rank in range(ranks)]
    right = middles[-1] + width / 2
    shapes: list[Shape] = [
        Text((left + right) / 2, 14, "DDP: a process per device", 13, "middle", bold=True),
        Text(left, 56, "Each process loads its own part of the batch.", 12, faint=True),
        Text(left, 72, "Weights are copied once, when DDP is made.", 12, faint=True),
    ]
    for rank, x in enumerate(middles):
        shapes += [
            Text(x, 36, f"rank {rank}", 12, "middle"),
            Box(x - width / 2 - 3, 84, width + 6, 224, edge=0.5),
            Box(x - width / 2, 122, 40, 28, f"rank {rank % 4}", "part", size=11),
            Box(x - width / 2 + 42, 122, 40, 28, "even", "model", size=11),
            Arrow(x, 151, x, 224, 1.2),
            Box(x - width / 2, 226, width, 26, f"rank {rank % 4}", "loss", size=11),
            Arrow(x, 253, x, 272, 1.2),
        ]
    return [*shapes, Box(left, 274, right - left, 28, "sum", "in backward: all-reduce of the gradients")]


def draw_ring(outcome: Outcome) -> Stepper:
    """Draw the ring all-reduce of a run, step by step.

    Args:
        outcome: its ranks have `states`, what their chunks held before the first step and after each step.
    """
    return ring(outcome["states"])


def ring(states: Mapping[int, Sequence[Sequence[float]]]) -> Stepper:
    """Draw a frame for the beginning and for each step: which chunk travels where, and the sums so far."""
    n = len(states)
    frames = tuple(
        Frame(_ring_frame(states, step), _describe_step(states, step)) for step in range(2 * n - 1)
    )
    return Stepper(frames, f"A ring all-reduce on {n} ranks", (0, 1, n - 1, 2 * n - 2) if n > 2 else ())


def _ring_frame(states: Mapping[int, Sequence[Sequence[float]]], step: int) -> Drawing:
    """Draw what each rank holds after a step, and an arrow for each chunk that has travelled in it."""
    n = len(states)
    left, top, width, height, across, down = 72.0, 24.0, 44.0, 28.0, 70.0, 46.0
    full = states[0][-1][0]
    shapes: list[Shape] = [
        Text(left + chunk * across + width / 2, 14, f"chunk {chunk}", 12, "middle") for chunk in range(n)
    ]
    for rank in range(n):
        shapes.append(Text(left - 12, top + rank * down + 19, f"rank {rank}", 13, "end"))
        for chunk, number in enumerate(states[rank][step]):
            came = step > 0 and chunk == (rank - step) % n
            look = "sum" if number == full else "odd" if number != states[rank][0][chunk] else "plain"
            x, y = left + chunk * across, top + rank * down
            shapes.append(Box(x, y, width, height, look, f"{number:g}", edge=0.5))
            if came:  # a frame around it: an outline of its own would be lost on dark paper
                shapes.append(Box(x - 2, y - 2, width + 4, height + 4, edge=2.5))
    for rank in range(n if step else 0):
        chunk = (rank - step + 1) % n  # what this rank has sent
        x, y = left + chunk * across, top + rank * down
        if rank < n - 1:
            shapes.append(Arrow(x + width / 2, y + height + 2, x + width / 2, y + down - 4, 2))
        else:  # from the last rank round to the first, beside the column
            side, up = x + width + 13, top + height / 2
            shapes += [
                Arrow(x + width, y + height / 2, side, y + height / 2, 2, plain=True),
                Arrow(side, y + height / 2, side, up, 2, plain=True),
                Arrow(side, up, x + width + 4, up, 2),
            ]
    bottom = top + n * down
    for line, key in enumerate(("striped: a partial sum; green: the sum of all", "framed: has just arrived")):
        shapes.append(Text(12, bottom + 4 + 16 * line, key, 11, faint=True))
    size = (max(left + n * across, 350), bottom + 28)
    return Drawing(*size, tuple(shapes), "", "Each rank sends to the next one only")


def _describe_step(states: Mapping[int, Sequence[Sequence[float]]], step: int) -> str:
    n = len(states)
    if step == 0:
        brought = ", ".join(f"{states[rank][0][0]:g}" for rank in range(n))
        return (
            f"Before: ranks 0 to {n - 1} have brought {brought}, the same number in each of their {n} chunks."
        )
    chunk, lap, way = (1 - step) % n, (step - 1) // (n - 1), (step - 1) % (n - 1) + 1
    passed = f"rank 0 sends chunk {chunk}, and rank 1 then has {states[1 % n][step][chunk]:g} there."
    if lap == 0:
        end = " Now each rank has the complete sum of one chunk." if way == n - 1 else ""
        return f"First lap, {way} of {n - 1}: each rank adds what it gets to what it has; {passed}{end}"
    end = " All ranks have the sums of all chunks." if way == n - 1 else ""
    return f"Second lap, {way} of {n - 1}: each rank keeps the complete sum that it gets; {passed}{end}"


def try_ring() -> dict[str, object]:
    """Run a ring by hand, chunk by chunk, beside `dist.all_reduce`, whose bytes are counted; on every rank.

    Returns:
        `states` as `ring` draws them; `same`: both give the same sums; `sent`: what this rank has sent during an
        all-reduce, in sizes of the tensor, or None where the system does not count.
    """
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.full((n,), 2.0**rank)
    summed, states, chunks = x.clone(), [x.tolist()], list(x.chunk(n))
    for step in range(2 * (n - 1)):
        send, receive = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        came = torch.empty_like(receive)
        sending = dist.isend(send, (rank + 1) % n)
        dist.recv(came, (rank - 1) % n)
        if sending is not None:
            sending.wait()
        receive.copy_(receive + came if step < n - 1 else came)
        states.append(x.tolist())
    dist.all_reduce(summed)
    large = torch.ones(_MEASURED_BYTES // 4)
    dist.barrier()
    before = bytes_sent()
    dist.all_reduce(large)
    after = bytes_sent()
    sent = None if before is None or after is None else (after - before) / large.nbytes
    return {"states": states, "same": torch.equal(x, summed), "sent": sent}


def explore_rings(outcome: Outcome | None = None) -> Explorer:
    """Return controls for how many ranks: a ring runs on as many, beside all_reduce, and is stepped through.

    Args:
        outcome: as for `draw_ring`; the end of its ring is the first picture.
    """

    def draw(ranks: int) -> tuple[Stepper, str]:
        outcome = run_quietly(try_ring, ranks=ranks, backend="gloo")
        values = {rank: outcome.values[rank] for rank in sorted(outcome.values)}
        stepper = ring({rank: value["states"] for rank, value in values.items()})
        return stepper, compared(values) + draw_busiest(values).svg()

    states = outcome["states"] if outcome else {}
    last = ring(states).frames[-1] if states else None
    return explore(
        draw,
        "a ring of 2 to 8 ranks, step by step",
        "the smallest ring in which the busiest rank sends at most a third of what device 0 would send to all "
        "others.",
        replace(last.drawing, alt=last.said) if last else None,
        ranks=buttons("ranks", [2, 3, 4, 5, 6, 8], len(states) or 4, "5em"),
    )


def compared(values: Mapping[int, Mapping[str, object]]) -> str:
    """Describe whether the ring by hand has given what `dist.all_reduce` gives."""
    odd = [rank for rank, value in values.items() if not value["same"]]
    return (
        f"<p>The ring and <code>dist.all_reduce</code> give different sums on ranks {odd}.</p>"
        if odd
        else "<p>The ring has given the same sums as <code>dist.all_reduce</code> on every rank.</p>"
    )


def draw_busiest(values: Mapping[int, Mapping[str, object]]) -> Drawing:
    """Draw what the busiest process sends: in a ring, measured and by the formula; and if device 0 sent to all."""
    n = len(values)
    counted = [sent for value in values.values() if isinstance(sent := value["sent"], float)]
    rows = {"device 0 to all others": (n - 1.0, "backward"), "a ring, 2(N-1)/N": (2 * (n - 1) / n, "forward")}
    if counted:
        rows["all_reduce, measured"] = (max(counted), "forward")
    found = [
        Lane(name, ((Bar(0, value, look, f"{value:.1f}", f"{value:.2f}"),),))
        for name, (value, look) in rows.items()
    ]
    unit = "sizes of the tensor"
    alt = "; ".join(f"{name} {value:.1f}" for name, (value, _) in rows.items())
    return lanes(
        found, title=f"{n} ranks: what the busiest one sends", alt=f"{alt} {unit}", legend={}, unit=unit
    )


def draw_held(data_parallel: Sequence[Mapping[str, int]], ddp: Mapping[int, Mapping[str, int]]) -> Drawing:
    """Draw what each device of DataParallel and each rank of DDP holds in a step, in MiB, by its purpose."""
    parts_by_owner = {f"device {number}": parts for number, parts in enumerate(data_parallel)}
    parts_by_owner |= {f"rank {rank}": ddp[rank] for rank in sorted(ddp)}
    found = []
    for name, parts in parts_by_owner.items():
        bars, start = [], 0.0
        for part, look in _HELD.items():
            length = parts.get(part, 0) / _MIB
            if length:
                bars.append(Bar(start, length, look, "", f"{part}: {length:.1f} MiB"))
            start += length
        found.append(Lane(name, (tuple(bars),)))
    totals = {name: sum(parts.values()) / _MIB for name, parts in parts_by_owner.items()}
    fullest = max(totals, key=lambda name: totals[name])
    return lanes(
        found,
        title=f"The fullest is {fullest}",
        alt="In MiB: " + "; ".join(f"{name} {total:.0f}" for name, total in totals.items()),
        legend={look: part for part, look in _HELD.items()},
        unit="MiB",
    )


def processor_use(*work: Callable[[], object]) -> float:
    """Return how many cores are busy while each function runs in a thread, in processor seconds per second."""
    best = 0.0
    for _ in range(2):
        wall, used = time.perf_counter(), time.process_time()
        threads = [threading.Thread(target=each) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = max(best, (time.process_time() - used) / (time.perf_counter() - wall))
    return best


def another_thread_runs_during(call: Callable[[], object]) -> bool:
    """Return whether a thread that looks at the clock a thousand times per second can do so during this one call.

    The call is to be a single operation: between two of them Python changes threads anyway.
    """
    looks: list[float] = []
    done = threading.Event()

    def look_at_the_clock() -> None:
        while not done.is_set():
            looks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=look_at_the_clock)
    thread.start()
    began = time.perf_counter()
    call()
    ended = time.perf_counter()
    done.set()
    thread.join()
    return any(began < moment < ended for moment in looks)


def in_parallel(*, loops: bool, multiplication: bool) -> Callable[[Outcome], bool]:
    """Predict whether two Python loops keep two cores busy, and whether a thread runs beside a multiplication."""
    return lambda outcome: (
        (outcome["cores"][0] >= 1.5) is loops and bool(outcome["beside"][0]) is multiplication
    )
