"""Lesson 05: who waits for whom, drawn, computed and measured; what its predictions ask; lateness to be played with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import TYPE_CHECKING

from course_lib.lab.explorer import Explorer, buttons, explore, slider
from course_lib.lab.traces import last_forward, seconds_waited, spans_since, timeline_of
from course_lib.lessons.stragglers.lateness import Lateness, always, by_chance, by_turns, train_late_and_not
from realranks.cells.run import run_quietly
from realranks.draw import Bar, Drawing, Lane, lanes
from realranks.outcome.outcome import Outcome
from realranks.outcome.spans import Stage
from realranks.outcome.timeline import Timeline
from realranks.outcome.timeline_drawing import tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A rank that does nothing for longer between its optimizer and its next forward was asleep.
_ASLEEP_SECONDS = 0.1
_WORDS = {
    "forward": "forward",
    "backward": "backward",
    "waiting": "waiting",
    "optimizer": "optimizer",
    "sleep": "asleep",
}


def waited(outcome: Outcome, rank: int) -> float:
    """Return the seconds that this rank waited in its last step."""
    timeline = timeline_of(outcome)
    return seconds_waited(spans_since(timeline, rank, last_forward(timeline, rank)))


def draw_last_step(outcome: Outcome) -> Drawing:
    """Draw each rank's last step, from the end of the optimizer step before it; a late forward shows as sleep.

    The title names the ranks that slept, and those that waited.
    """
    timeline = timeline_of(outcome)
    begins = {rank: _step_before_ended(timeline, rank) for rank in timeline.ranks}
    zero = min(begins.values())
    found: list[Lane] = []
    asleep: list[str] = []
    for rank in timeline.ranks:
        forward = last_forward(timeline, rank)
        main = tracks(timeline.spans, rank, since=zero)[0]
        bars = tuple(bar for bar in main if bar.start >= 1e3 * (forward - zero) - 1e-6)
        if forward - begins[rank] > _ASLEEP_SECONDS:
            asleep.append(f"rank {rank}")
            bars = (
                Bar(1e3 * (begins[rank] - zero), 1e3 * (forward - begins[rank]), "sleep", "asleep"),
                *bars,
            )
        found.append(Lane(f"rank {rank}", (bars,)))
    waiting = [f"rank {rank}" for rank in timeline.ranks if waited(outcome, rank) > _ASLEEP_SECONDS]
    return lanes(
        found,
        title=f"Asleep: {', '.join(asleep) or 'nobody'}. Waiting in backward(): {', '.join(waiting) or 'nobody'}",
        alt=f"A lane per rank, its last step: asleep before its forward {', '.join(asleep) or 'nobody'}; waiting at "
        f"the end of backward: {', '.join(waiting) or 'nobody'}.",
        legend=_WORDS,
        unit="milliseconds since the step began",
    )


def _step_before_ended(timeline: Timeline, rank: int) -> float:
    forward = last_forward(timeline, rank)
    mine = [span for span in timeline.spans if span.rank == rank and span.stage is Stage.OPTIMIZER]
    return max((span.end for span in mine if span.start < forward), default=0.0)


def late_rank(ranks: int = 4, late: int = 2) -> Drawing:
    """Draw one step of each rank; what each does after its backward is asked."""
    delay, forward, backward, open_end = 45, 12, 22, 18
    found = []
    for rank in range(ranks):
        begin = delay if rank == late else 0
        bars = [
            Bar(begin, forward, "forward", "forward"),
            Bar(begin + forward, backward, "backward", "backward"),
        ]
        if rank == late:
            bars.insert(0, Bar(0, delay, "sleep", "late"))
        # All go on to the same place: where the answer ends is not to be seen.
        done = begin + forward + backward
        bars.append(Bar(done, delay + forward + backward + open_end - done, "", "?"))
        found.append(Lane(f"rank {rank}", (tuple(bars),)))
    others = ", ".join(str(rank) for rank in range(ranks) if rank != late)
    return lanes(
        found,
        title=f"Rank {late} is late. What do the others do meanwhile?",
        alt=f"A lane per rank. Rank {late} begins its forward and backward late; ranks {others} begin at once. "
        "What each does after its backward is a question mark.",
        legend={"forward": "forward", "backward": "backward", "sleep": "late"},
        unit="time",
    )


def lost(late: Lateness, every: int = 1) -> float:
    """Return the milliseconds by which all ranks end later: between two reductions the largest sum counts."""
    rounds = range(0, len(late[0]), every)
    return sum(max(sum(mine[first : first + every]) for mine in late) for first in rounds)


def expected_delay(every: int, ranks: int = 4, chance: float = 1 / 4, milliseconds: float = 20) -> float:
    """Return the expected milliseconds lost per step if each rank is late with this chance.

    It is the largest of the ranks' numbers of late steps between two reductions.
    """
    odds = [comb(every, n) * chance**n * (1 - chance) ** (every - n) for n in range(every + 1)]
    more = [1 - sum(odds[: n + 1]) ** ranks for n in range(every)]  # somebody is late more than n times
    return milliseconds * sum(more) / every


def expected_maximum(times: Sequence[float], n: int) -> float:
    """Return the mean of the largest of n times, drawn from these with replacement."""
    ordered, total = sorted(times), len(times)
    return sum(t * ((i / total) ** n - ((i - 1) / total) ** n) for i, t in enumerate(ordered, 1))


#: Milliseconds by which two runs of 16 steps differ on a machine that is not busy.
_NOISE = 20.0


def draw_shadows(late: Lateness, every: int = 1, note: str = "", step: float = 4.0) -> Drawing:
    """Draw each rank's steps, its lateness before them, and the shadow of a later rank: computed, not measured.

    Args:
        late: see `Lateness`.
        every: after how many steps the ranks reduce.
        note: beside the title; what is measured.
        step: milliseconds that a step takes apart from lateness.
    """
    own = max(map(sum, late))
    return lanes(
        [Lane(f"rank {rank}", (bars,)) for rank, bars in enumerate(_bars(late, every, step))],
        title=f"{len(late[0])} steps: late by {own:g} ms at most, all end {lost(late, every):g} ms later (computed)",
        alt=_shadows_in_words(late, every),
        legend={"sleep": "late", "even": "a step's own work", "waiting": "waiting, in somebody's shadow"},
        note=note,
    )


def _bars(late: Lateness, every: int, step: float) -> list[tuple[Bar, ...]]:
    found: list[list[Bar]] = [[] for _ in late]
    begin = 0.0
    for first in range(0, len(late[0]), every):
        ends = []
        for mine, bars in zip(late, found, strict=True):
            now = begin
            for delay in mine[first : first + every]:
                bars += [Bar(now, delay, "sleep")] * (delay > 0) + [Bar(now + delay, step, "even")]
                now += delay + step
            ends.append(now)
        begin = max(ends)
        for end, bars in zip(ends, found, strict=True):
            bars += [Bar(end, begin - end, "waiting")] * (begin > end)
    return [tuple(bars) for bars in found]


def _shadows_in_words(late: Lateness, every: int) -> str:
    own = ", ".join(f"{sum(mine):g} on rank {rank}" for rank, mine in enumerate(late))
    often = "every step" if every == 1 else f"every {every} steps"
    return (
        f"{len(late[0])} steps, reduced after {often}. Milliseconds of lateness: {own}; and every rank is "
        f"{lost(late, every):g} later in the end, because it waits for whoever is later."
    )


_STEPS = 16
#: Who is late, in the words of the explorable.
_LATE: Mapping[str, Callable[[int, float], Lateness]] = {
    "by chance": lambda ranks, milliseconds: by_chance(ranks, _STEPS, milliseconds),
    "by turns": lambda ranks, milliseconds: by_turns(ranks, _STEPS, milliseconds),
    "always rank 0": lambda ranks, milliseconds: always(0, ranks, _STEPS, milliseconds),
}


def explore_lateness() -> Explorer:
    """Return controls for who is late, by how much, and how often ranks reduce, to be measured on real ranks."""

    def draw(who: str, delay: int, every: int, ranks: int) -> Drawing:
        late = _LATE[who](ranks, float(delay))
        with_, without = run_quietly(train_late_and_not, late, every, ranks=ranks).values[0]
        return draw_shadows(late, every, measured(with_ - without, lost(late, every)))

    return explore(
        draw,
        "late, ms late, every, ranks",
        "",
        draw_shadows(by_chance(4, _STEPS, 20.0), 1, "move a control to measure"),
        who=buttons("late", list(_LATE), label="5em"),
        delay=slider("ms late", range(0, 41, 5), 20, "5em", runs=True),
        every=slider("every", [1, 2, 4, 8, 16], 1, "5em", runs=True),
        ranks=slider("ranks", range(2, 7), 4, "5em", runs=True),
    )


def measured(later: float, computed: float) -> str:
    """Return what was measured beside what was computed, in milliseconds; nothing of a busy machine."""
    is_busy = not 0.8 * computed - _NOISE <= later <= 1.3 * computed + _NOISE
    return "not measured: too busy" if is_busy else f"measured: {later:.0f} ms"


def plot_tails(jobs: Outcome) -> None:
    """Plot what n ranks are expected to wait for their slowest, and what groups of 1, 2 and 4 really needed.

    Args:
        jobs: its ranks have `times`: by kind of rank and size of the group, the pairs that `timed_step` returned.
    """
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    sizes = [2**k for k in range(11)]
    at_64 = {}
    for kind, line, marker, colour in (("steady", "-", "o", "#0072B2"), ("hiccups", "--", "s", "#D55E00")):
        found = {size: [jobs["times"][rank][kind, size] for rank in range(4)] for size in (1, 2, 4)}
        times = [1e3 * own for ranks in found.values() for steps in ranks for own, _ in steps]
        label = f"{kind}: {sum(times) / len(times):.1f} ms per rank on average"
        axes.plot(sizes, [expected_maximum(times, n) for n in sizes], line, color=colour, label=label)
        for size, ranks in found.items():
            slowest, over = _really_needed(ranks, size)
            axes.plot(size, slowest, marker, color=colour, markersize=8)
            axes.plot(size, over, marker, color=colour, markersize=8, markerfacecolor="none")
        at_64[kind] = expected_maximum(times, 64)
    axes.plot([], [], "ks", label="really run: the slowest rank")
    axes.plot([], [], "ks", markerfacecolor="none", label="... and the all-reduce")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    both = f"{at_64['steady']:.0f} or {at_64['hiccups']:.0f} ms"
    axes.set(
        title=f"The same mean, different tails: the slowest of 64 ranks needs {both}",
        xlabel="ranks",
        ylabel="expected time of the slowest rank (ms)",
        ylim=(0, None),
    )
    axes.legend(fontsize=8)
    plt.show()


def _really_needed(ranks: Sequence[Sequence[tuple[float, float]]], size: int) -> tuple[float, float]:
    """Return the milliseconds per step until a group's slowest rank had come, and until the all-reduce was over."""
    groups = [list(zip(*ranks[first : first + size], strict=True)) for first in range(0, len(ranks), size)]
    steps = [step for group in groups for step in group]
    slowest = 1e3 * sum(max(own for own, _ in step) for step in steps) / len(steps)
    over = 1e3 * sum(max(through for _, through in step) for step in steps) / len(steps)
    return slowest, over


def plot_less_often(outcome: Outcome) -> None:
    """Plot what reducing in every 4th step has saved, by who is late.

    Args:
        outcome: its ranks have `late`, the lateness by who is late, and `took`, milliseconds by who and how often.
    """
    import matplotlib.pyplot as plt

    late: Mapping[str, Lateness] = outcome["late"][0]
    took: Mapping[tuple[str, int], float] = outcome["took"][0]
    figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    for number, (every, colour, hatch) in enumerate(((1, "#0072B2", ""), (4, "#E69F00", "///"))):
        found = [took[who, every] for who in late]
        places = [row + 0.36 * number for row in range(len(late))]
        label = "reduced in every step" if every == 1 else "reduced in every 4th step"
        axes.barh(places, found, height=0.34, color=colour, hatch=hatch, edgecolor="black", label=label)
        for place, milliseconds, who in zip(places, found, late, strict=True):
            axes.text(milliseconds + 5, place, f"{milliseconds:.0f} ms", va="center", fontsize=9)
            axes.plot([lost(late[who], every)] * 2, [place - 0.17, place + 0.17], "k", linewidth=3)
    axes.plot([], [], "k", linewidth=3, label="of which sleep")
    axes.set_yticks([row + 0.18 for row in range(len(late))], list(late))
    axes.set(
        title="\n".join(
            f"{who}: {took[who, 1] - took[who, 4]:.0f} ms saved by every 4th reduction" for who in late
        ),
        xlabel="milliseconds for 16 steps",
        ylim=(1.7, -0.3),
        xlim=(0, 1.15 * max(took.values())),
    )
    figure.legend(fontsize=8, ncols=3, loc="outside lower center", frameon=False)
    plt.show()


def plot_spreads(outcome: Outcome) -> None:
    """Plot how far the weights of two pairs differ after each step, with two ways to reduce less often."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for name, line, colour, label in (
        ("pairs_only", "s--", "#D55E00", "new_group alone"),
        ("averaged", "o-", "#0072B2", "reduced in pairs, weights averaged every 4th step"),
    ):
        axes.plot([between for _, between in outcome[name][0]], line, color=colour, label=label)
    axes.set_xticks(range(0, 16, 2))
    axes.set(
        title="How far the models of the two pairs are apart",
        xlabel="step",
        ylabel="largest difference\nbetween the pairs' weights",
    )
    figure.legend(fontsize=8, ncols=2, loc="outside lower center", frameon=False)
    plt.show()


def plot_weights(outcome: Outcome) -> None:
    """Plot the weight of each rank's batch in each round of a joined epoch, with both choices of the divisor."""
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained", sharey=True)
    titles = {"default": "default", "by_those_left": "divide_by_initial_world_size=False"}
    for axes, (name, title) in zip(both, titles.items(), strict=True):
        _draw_weights(axes, outcome[name])
        axes.set_title(title, fontsize=9)
    figure.suptitle("What a batch weighs in each round")
    plt.show()


def _draw_weights(axes: Axes, gradients: Mapping[int, Sequence[float]]) -> None:
    import matplotlib.pyplot as plt

    colours = plt.get_cmap("Blues")
    for number, gradient in enumerate(gradients[max(gradients)]):  # the last rank takes part in all rounds
        left = [rank for rank in gradients if len(gradients[rank]) > number]
        weight = gradient / len(left)
        ink = "white" if weight > 0.7 else "black"
        for rank in left:
            axes.barh(
                rank, 0.9, left=number - 0.45, height=0.8, color=colours(0.8 * weight), edgecolor="black"
            )
            axes.text(number, rank, f"{weight:.2f}", ha="center", va="center", color=ink)
    axes.set_yticks(range(4), [f"rank {rank}" for rank in range(4)])
    axes.set_xticks(range(4))
    axes.set(xlabel="round", xlim=(-0.6, 3.6), ylim=(3.6, -0.6))


def plot_errors(errors: Mapping[int, Sequence[float]]) -> None:
    """Plot the errors of the mean of means and of the weighted mean by the number of samples on rank 1."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    labels = ("each rank's mean, averaged by DDP", "loss × own samples × ranks / all samples")
    for number, (label, line, colour) in enumerate(
        zip(labels, ("s--", "o-"), ("#D55E00", "#0072B2"), strict=True)
    ):
        axes.plot(
            list(errors), [100 * both[number] for both in errors.values()], line, color=colour, label=label
        )
    worst = [100 * max(both[number] for both in errors.values()) for number in (0, 1)]
    axes.set(
        title=f"Off by up to {worst[0]:.0f} % (mean of means) and {worst[1]:.0f} % (weighted)",
        xlabel="samples on rank 1 (8 on rank 0)",
        ylabel="gradient is off by (%)",
    )
    axes.legend(fontsize=8)
    plt.show()


def always_late_took(low: float, high: float) -> Callable[[Outcome], bool]:
    """Predict the milliseconds that ranks take with rank 2 always late and every 4th step reduced."""
    return lambda outcome: bool(low <= outcome["took"][0]["rank 2 is always late", 4] < high)


def after_join(weights: bool, momenta: bool) -> Callable[[Outcome], bool]:
    """Predict whether the ranks' weights are equal, and the momenta of their optimizers."""
    return lambda outcome: set(outcome.values.values()) == {(weights, momenta)}


def raised_on(*ranks: int) -> Callable[[Outcome], bool]:
    """Predict that these ranks raised an error, and no others."""
    return lambda outcome: set(outcome.errors) == set(ranks)


def models_differ(outcome: Outcome) -> bool:
    """Return whether the ranks had different gradients."""
    return not outcome["same"][0]


def same_and_right(outcome: Outcome) -> bool:
    """Return whether all ranks had the same gradient, that of one process with 2 samples on rank 1."""
    return bool(outcome["same"][0] and outcome["errors"][0][2][0] < 0.01)


def same_and_wrong(outcome: Outcome) -> bool:
    """Return whether all ranks had the same gradient, but a wrong one."""
    return bool(outcome["same"][0] and outcome["errors"][0][2][0] > 0.01)
