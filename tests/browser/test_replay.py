"""A replay in a page of its own, by mouse, keyboard and by itself; and in JupyterLab, of ranks that have just run."""

import pytest
from playwright.sync_api import expect

from realranks.draw import Bar, Lane, Moment, Replay, ReplayLane, lanes
from tests.browser.servers import DARK

pytestmark = pytest.mark.browser

TRACED = """%%ranks 2 --trace --as out
import time, torch
import torch.distributed as dist
if dist.get_rank() == 1:
    time.sleep(0.2)
dist.barrier()"""
STEPPER = """from realranks.draw import Drawing, Frame, Stepper, Text
Stepper(tuple(Frame(Drawing(90, 60, (Text(9, 30, n),), n), n) for n in ("one", "two")), "two steps")"""
#: Rank 1 begins late; rank 0 waits for it from 20 to 60 ms, then both send.
LANES = {
    "rank 0": ((Bar(0, 20, "backward"), Bar(20, 50, "waiting")), (Bar(25, 45, "communication"),)),
    "rank 1": ((Bar(40, 20, "backward"), Bar(60, 10, "waiting")), (Bar(60, 10, "communication"),)),
}


@pytest.fixture
def replayed(page, tmp_path):
    """The words beside the lanes, and the parts of the replay."""
    drawing = lanes(
        [Lane(name, tracks) for name, tracks in LANES.items()],
        title="Rank 1 is late",
        alt="two lanes",
        legend={"backward": "backward", "waiting": "waiting", "communication": "all-reduce under way"},
    )
    told = tuple(
        ReplayLane(
            name,
            tuple(Moment(bar.start, bar.start + bar.length, bar.look) for bar in main),
            tuple((bar.start, bar.start + bar.length) for bar in sent),
        )
        for name, (main, sent) in LANES.items()
    )
    file = tmp_path / "replay.html"
    file.write_text(f'<!doctype html><meta charset="utf-8">{Replay(drawing, told).html()}', encoding="utf-8")
    page.goto(file.as_uri())
    return page


def says(page, *texts: str) -> None:
    expect(page.locator("tbody td")).to_have_text(list(texts))


def test_steps_say_what_each_rank_does_and_whom_it_waits_for(replayed, shots):
    clock = replayed.locator("[data-is=clock]")
    says(replayed, "backward", "runs other code")
    replayed.get_by_role("button", name="step ›").click()
    expect(clock).to_have_text("20.0 ms")
    says(replayed, "waits for rank 1", "runs other code")
    replayed.screenshot(path=shots / "replay.png")
    replayed.get_by_role("button", name="step ›").click()
    says(replayed, "waits for rank 1", "backward")
    replayed.get_by_role("button", name="step ›").click()
    says(replayed, "waits: the collective is under way", "waits: the collective is under way")
    replayed.get_by_role("button", name="‹ step").click()
    expect(clock).to_have_text("40.0 ms")


def test_the_keyboard_steps_plays_and_goes_back_to_the_start(replayed):
    replayed.get_by_role("slider", name="time").focus()
    replayed.keyboard.press("ArrowRight")
    replayed.keyboard.press("ArrowRight")
    says(replayed, "waits for rank 1", "backward")
    replayed.keyboard.press("End")
    says(replayed, "has ended", "has ended")
    replayed.keyboard.press("Home")
    says(replayed, "backward", "runs other code")
    replayed.get_by_role("combobox", name="speed").select_option("as it was")
    replayed.get_by_role("slider", name="time").focus()
    replayed.keyboard.press(" ")
    expect(replayed.locator("[data-is=clock]")).to_have_text("70.0 ms")
    expect(replayed.get_by_role("button", name="play")).to_be_visible()  # it has come to its end


def test_the_cursor_is_where_the_time_is(replayed):
    slider = replayed.get_by_role("slider", name="time")
    slider.fill("500")
    now = replayed.locator("[data-is=now]").bounding_box()
    later = replayed.locator("[data-is=later]").bounding_box()
    late = (
        replayed.locator("svg rect[fill='#0072B2']").nth(1).bounding_box()
    )  # rank 1's backward, from 40 ms on
    assert now["x"] < late["x"]
    slider.fill("571")
    assert replayed.locator("[data-is=now]").bounding_box()["x"] == pytest.approx(late["x"], abs=2)
    assert later["height"] == now["height"]


def test_where_ranks_form_several_groups_nobody_is_named_as_late(page, tmp_path):
    drawing = lanes(
        [Lane("rank 0", ((Bar(0, 9, "waiting"),),)), Lane("rank 1", ((),))], title="", alt="", legend={}
    )
    told = (ReplayLane("rank 0", (Moment(0, 9, "waiting"),), ((1, 9),)), ReplayLane("rank 1", ()))
    file = tmp_path / "groups.html"
    for one_group, text in ((True, "waits for rank 1"), (False, "waits for others")):
        file.write_text(Replay(drawing, told, one_group=one_group).html(), encoding="utf-8")
        page.goto(file.as_uri())
        says(page, text, "runs other code")


def test_in_jupyterlab_a_traced_run_is_watched_again(open_notebook, lab):
    lab.set_theme(DARK)
    notebook = open_notebook(
        "notebooks/scratch.ipynb",
        "%load_ext course_lib",
        TRACED,
        "out.replay()",
        STEPPER,
        "out.timeline.plot()",
    )
    notebook.run(0)
    notebook.run(1)
    replay = notebook.run(2)
    said = replay.locator("tbody td").first
    step = replay.get_by_role("button", name="step ›")
    slider = replay.get_by_role("slider", name="time")
    slider.fill("500")
    expect(said).to_have_text("waits for rank 1")
    step.click()
    slider.press("ArrowLeft")  # JupyterLab's own shortcuts do not see it
    expect(replay.locator("[data-is=now]")).to_be_visible()
    notebook.shoot("replay", at=2)
    # After a press of a button, Shift+Enter goes on with the notebook, here as there.
    stepper = notebook.run(3)
    for index, player in ((2, replay), (3, stepper)):
        for name in ("step ›", "play"):
            player.get_by_role("button", name=name).click()
            notebook.run_next(index)
    expect(notebook.run_next(4).locator("img, svg").first).to_be_visible()
    notebook.shoot("timeline", at=4)
