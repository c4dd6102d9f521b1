"""Explorables and steppers of lessons 02 to 10 and 15 in JupyterLab: each choice, by mouse or by key, runs on ranks."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import WINDOW

pytestmark = pytest.mark.browser

CELLS = (
    "%load_ext course_lib",
    (
        "from course_lib.lessons.process_groups.lab import AGENT, Start, explore_start\n"
        "explore_start(Start(AGENT, {}, frozenset()))"
    ),
    "from course_lib.lessons.samplers.lab import explore_deals\nexplore_deals()",
    "from course_lib.lessons.stragglers.lab import explore_lateness\nexplore_lateness()",
)


def test_explorables_are_worked_by_mouse_and_by_keyboard(open_notebook):
    notebook = open_notebook("notebooks/scratch.ipynb", *CELLS)
    keyboard = notebook.page.keyboard
    for index in range(len(CELLS)):
        notebook.run(index)

    start = notebook.output(1)
    start.get_by_role("button", name="rank 3 comes").click()
    picture = start.locator("svg.ddp")
    expect(picture).to_have_attribute(
        "aria-label", re.compile("rank 0 has not come.*rank 3 waits for rank 0's address")
    )
    start.get_by_role("button", name="rank 0 comes").focus()
    keyboard.press("Space")
    expect(picture).to_have_attribute("aria-label", re.compile("rank 1 has not come"))
    notebook.shoot("explore_start", at=1)

    deals = notebook.output(2)
    deals.get_by_role("slider").first.focus()
    keyboard.press("ArrowRight")
    expect(deals).to_contain_text("In order: taken more than once: 0")
    deals.get_by_label("drop_last").click()
    expect(deals).to_contain_text("In order, drop_last: never: 8, 9, 10")
    notebook.shoot("explore_deals", at=2)

    late = notebook.output(3)
    late.get_by_role("button", name="always rank 0").click()
    expect(late).to_contain_text("16 steps: late by 320 ms at most, all end 320 ms later (computed)")
    late.get_by_role("slider").nth(1).focus()
    keyboard.press("ArrowRight")
    lateness = late.locator("svg.ddp").first
    expect(lateness).to_have_attribute("aria-label", re.compile("16 steps, reduced after every 2 steps"))
    expect(late).to_contain_text("measured:")
    for index in range(len(CELLS)):
        expect(notebook.errors(index)).to_have_count(0)
    notebook.shoot("explore_lateness", at=3)


SCALE = (
    "%load_ext course_lib",
    "from course_lib.lessons.scale.all_reduces import explore_all_reduces\nexplore_all_reduces()",
    "from course_lib.lessons.scale.lab import explore_efficiency\nexplore_efficiency()",
)


def test_all_reduces_are_stepped_through_and_efficiencies_computed(open_notebook):
    notebook = open_notebook("notebooks/scratch.ipynb", *SCALE)
    for index in range(len(SCALE)):
        notebook.run(index)

    reduces = notebook.output(1)
    expect(reduces).to_contain_text("14 rounds. The busiest rank sends 1.75 × the tensor")
    reduces.get_by_role("button", name="two levels").click()
    expect(reduces).to_contain_text("8 rounds. The busiest rank sends 1.75 × the tensor")
    expect(reduces).to_contain_text("It has run on 8 ranks, and gave the same sums as dist.all_reduce.")
    said = reduces.locator("[data-is=said]")
    reduces.get_by_role("slider").press("ArrowRight")
    expect(said).to_contain_text("Round 1 of 8: 8 messages with 2/8 of the tensor; what comes is added up.")
    readable(reduces)
    reduces.get_by_role("slider").press("End")
    expect(said).to_contain_text("8 of 8 ranks have all sums.")
    notebook.shoot("explore_all_reduces", at=1)

    efficiency = notebook.output(2)
    expect(efficiency.locator("svg.ddp")).to_contain_text("8 ranks: 7.7 times as fast; 64 ranks: 61 times")
    efficiency.get_by_role("slider").first.focus()
    for _ in range(4):
        notebook.page.keyboard.press("ArrowLeft")
    expect(efficiency.locator("svg.ddp")).to_contain_text("64 ranks: 31 times (weak)")
    readable(efficiency)
    for index in range(len(SCALE)):
        expect(notebook.errors(index)).to_have_count(0)
    notebook.shoot("explore_efficiency", at=2)


#: A stepper and an explorable for each of lessons 06 to 10; 07 has a picture in the stepper's place.
PAIRS = (
    "%load_ext course_lib",
    "from course_lib.lab.reducer import step_through\nstep_through('FFBB')",
    "from course_lib.lessons.alternation.lab import explore_orders\nexplore_orders()",
    "from course_lib.lessons.wrappers.lab import boundary, explore_places\nboundary()",
    "explore_places()",
    "step_through('FS F(left)S F', heads=True)",
    "from course_lib.lessons.unused.lab import explore_graphs\nexplore_graphs()",
    "from course_lib.lessons.synchronised.lab import explore_changes, what_travels\nwhat_travels()",
    "explore_changes()",
    "from course_lib.lessons.accumulation.lab import explore_loop\nstep_through('NBNBNBFB')",
    "explore_loop()",
)
#: Words in an output that are cut, stick out of their picture, or lie on other words.
UNREADABLE = """output => {
    const bad = [];
    for (const each of output.querySelectorAll('button, .widget-label, .widget-label-basic')) {
        if (each.scrollWidth > each.clientWidth + 1) bad.push(`cut: ${each.textContent}`);
    }
    for (const svg of output.querySelectorAll('svg.ddp')) {
        const frame = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll('text')].map(text => [text, text.getBoundingClientRect()]);
        for (const [text, box] of texts) {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) {
                bad.push(`sticks out: ${text.textContent}`);
            }
            for (const [other, its] of texts) {
                if (text === other) break;
                const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
                const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
                if (across > 1 && down > 2) bad.push(`one on the other: ${text.textContent}, ${other.textContent}`);
            }
        }
    }
    return bad;
}"""


def readable(output: Locator) -> None:
    """Every word in this output can be read."""
    assert output.evaluate(UNREADABLE) == []


def test_steppers_and_explorables_of_lessons_06_to_10_say_what_they_must(open_notebook, lab_page):
    notebook = open_notebook("notebooks/scratch.ipynb", *PAIRS)
    keyboard = notebook.page.keyboard
    for index in range(len(PAIRS)):
        notebook.run(index)

    def press(output: Locator, name: str, *, by_key: bool = False) -> None:
        button = output.get_by_role("button", name=name, exact=True)
        if by_key:
            expect(button).to_be_enabled()
            button.focus()
            keyboard.press("Space")
        else:
            button.click()

    def ends(output: Locator, *steps: str) -> None:
        """Step through with the arrow keys; the last step by mouse, and what it says."""
        said, slider = output.locator("[data-is=said]"), output.get_by_role("slider")
        for step in steps[:-1]:
            slider.press("ArrowRight")
            expect(said).to_contain_text(step)
            readable(output)
        press(output, "step ›")
        expect(said).to_contain_text(steps[-1])

    # 06: what the sheet computes, and what two ranks have measured.
    armed, full, silent = "It arms", "Every box is ticked", "is not ticked, so nothing is sent"
    ends(notebook.output(1), armed, "twice armed is once armed", full, "nothing is sent. .grad is 12 and 32")
    orders = notebook.output(2)

    def type_order(rank: int, calls: str) -> None:
        field = orders.get_by_label(f"rank {rank} calls")
        field.fill(calls)
        field.press("Enter")

    type_order(0, "FFS")
    expect(orders).to_contain_text("22 and 22: right")
    expect(orders).to_contain_text("two real ranks: 22 and 22")
    type_order(1, "FBFB")
    expect(orders).to_contain_text("rank 1 waits for ever")
    expect(orders).to_contain_text("two real ranks: a deadlock, proved")
    type_order(1, "")
    press(orders, "a body and two heads", by_key=True)
    type_order(0, "MMMMS")
    expect(orders).to_contain_text("4 forwards: .grad has digits for 3")
    type_order(0, "MMMBBB")  # no sheet is wider
    expect(orders).to_contain_text("no error, and wrong")
    readable(orders)

    # 07: where a parameter lives.
    places = notebook.output(4)
    press(places, "in forward, and in the loss", by_key=True)
    expect(places).to_contain_text("in forward, and in the loss: equal; .grad averaged")
    press(places, "put in another's place after wrapping")
    expect(places).to_contain_text("not equal; .grad each rank's own, then an error")
    press(places, "find_unused_parameters", by_key=True)
    expect(places).to_contain_text("after wrapping: not equal; .grad each rank's own")
    expect(places).not_to_contain_text("Expected to have finished reduction")
    press(places, "in forward")
    press(places, "ddp.module(x)")
    expect(places).to_contain_text("in forward: equal; .grad each rank's own")

    # 08: the sheet that does not get full, and graphs that are composed.
    ends(notebook.output(5), armed, full, armed, silent, "That raises")
    graphs = notebook.output(6)
    for _ in range(2):
        graphs.get_by_title("rank 0, step 0").click()
    told = graphs.locator("svg.ddp")
    expect(told).to_have_attribute(
        "aria-label", re.compile("rank 0, step 0, both: hangs.*step 1, left: raises")
    )
    readable(graphs)
    press(graphs, "touch", by_key=True)
    expect(graphs).to_contain_text(".grad 2.5, 2, 0.5")
    graphs.get_by_title("rank 1, step 3").focus()
    keyboard.press("Space")
    expect(graphs).to_contain_text(".grad 2, 0.5, 1.5")

    # 09: what travels, and what becomes of a change on rank 1.
    travels = notebook.output(7)
    travels.get_by_role("slider").press("End")
    travels.get_by_role("slider").press("ArrowLeft")
    expect(travels).to_contain_text("those of the other ranks are lost")
    readable(travels)
    changes = notebook.output(8)
    expect(changes).to_contain_text("Rank 1 adds 1 to its weight (▼): weights end different")
    press(changes, "built")
    expect(changes).to_contain_text("adds 1 to its weight (▼): weights end equal, as without the change")
    press(changes, "adds 1 to BatchNorm's running mean", by_key=True)
    expect(changes).to_contain_text("running mean (▼): weights end equal, as without the change")
    readable(changes)  # no title is longer
    press(changes, "adds 1 to .grad")
    expect(changes).to_contain_text("adds 1 to .grad (▼): weights end equal, not as without the change")
    press(changes, "backward 2 is over", by_key=True)
    expect(changes).to_contain_text("adds 1 to .grad (▼): weights end different")

    # 10: the usual mistakes of the loop.
    ends(notebook.output(9), "It arms nothing", ".grad is 1 and 3")
    loop = notebook.output(10)
    expect(loop).to_contain_text("two real ranks: 2222 and 2222")
    loop.get_by_label("zero_grad before each micro-batch").focus()
    keyboard.press("Space")
    press(loop, "nothing")
    expect(loop).to_contain_text("wrong: a micro-batch with the digit 0 is missing")
    expect(loop).to_contain_text("two real ranks: 8000 and 8000")
    readable(loop)  # no order is longer
    loop.get_by_label("this is the group that is left over").click()
    loop.get_by_label("a step after that one, too").click()
    expect(loop).to_contain_text("wrong: no step follows the last micro-batches")

    lab_page.set_viewport_size({"width": 760, "height": 900})
    for index in range(1, len(PAIRS)):
        expect(notebook.errors(index)).to_have_count(0)
        readable(notebook.output(index))
        notebook.shoot(
            f"lesson_{5 + (index + 1) // 2:02}_{'explorer' if index % 2 == 0 else 'picture'}", at=index
        )
    assert notebook.too_wide() == []
    lab_page.set_viewport_size(WINDOW)
