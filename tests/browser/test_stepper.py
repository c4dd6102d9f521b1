"""A stepper in a page of its own: by mouse, by keyboard, by itself, without scripts, on paper, and read aloud."""

import pytest
from playwright.sync_api import expect

from realranks.draw import Arrow, Box, Drawing, Frame, Stepper, Text

pytestmark = pytest.mark.browser

SAID = ("Nothing has been sent.", "Rank 0 has sent.", "Rank 1 has answered.")
FRAMES = tuple(
    Frame(
        Drawing(
            400,
            80 - 20 * number,
            (Box(10, 10, 30, 30, "odd", str(number)), Text(60, 30, f"at {number}"), Arrow(10, 50, 300, 50)),
            "",
        ),
        said,
    )
    for number, said in enumerate(SAID)
)


def written(tmp_path, seconds: float) -> str:
    page = Stepper(FRAMES, "A message", seconds=seconds).html()
    file = tmp_path / "stepper.html"
    # Twice, as where a notebook shows the same output in two views: both have to work.
    file.write_text(f'<!doctype html><meta charset="utf-8">{page}<hr>{page}', encoding="utf-8")
    return file.as_uri()


def test_a_stepper_is_worked_by_keyboard_and_by_mouse_and_says_what_has_happened(page, tmp_path, shots):
    page.goto(written(tmp_path, seconds=30))
    first, second = page.get_by_role("group", name="A message").all()
    said, picture = first.locator("[data-is=said]"), first.locator("[data-is=picture]")
    expect(said).to_have_text(SAID[0])
    expect(said).to_have_attribute("aria-live", "polite")
    expect(picture).to_contain_text("at 0")
    slider = first.get_by_role("slider", name="step")
    picture.click()
    expect(slider).to_be_focused()
    for key, place in (("ArrowRight", 1), ("End", 2), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        page.keyboard.press(key)
        expect(said).to_have_text(SAID[place])
        expect(picture).to_contain_text(f"at {place}")
        expect(slider).to_have_attribute("aria-valuetext", f"{place + 1} of 3")
    page.keyboard.press("Space")
    expect(first.get_by_role("button", name="pause")).to_be_visible()
    expect(said).to_have_attribute("aria-live", "off")
    page.keyboard.press("Space")
    expect(first.get_by_role("button", name="play")).to_be_visible()
    assert (
        slider.evaluate("each => getComputedStyle(each).outlineStyle") == "solid"
    )  # where the focus is, is seen
    # Tab goes to the buttons; the one at the end of its way keeps the focus.
    page.keyboard.press("Shift+Tab")
    expect(first.get_by_role("button", name="last")).to_be_focused()
    page.keyboard.press("Space")
    expect(said).to_have_text(SAID[2])
    expect(first.get_by_role("button", name="last")).to_be_focused()
    first.get_by_role("button", name="‹ step").click()
    expect(said).to_have_text(SAID[1])
    page.screenshot(path=shots / "stepper.png")
    top = first.locator("[data-is=controls]").bounding_box()["y"]
    first.get_by_role("button", name="last").click()
    assert first.locator("[data-is=controls]").bounding_box()["y"] == top  # though this picture is lower
    expect(second.locator("[data-is=said]")).to_have_text(SAID[0])
    second.get_by_role("button", name="step ›").click()
    expect(second.locator("[data-is=said]")).to_have_text(SAID[1])


def test_a_stepper_plays_to_its_end_and_nothing_fades_where_less_motion_is_asked_for(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    page.goto(written(tmp_path, seconds=0.05))
    stepper = page.get_by_role("group", name="A message").first
    expect(stepper.locator("[data-is=said]")).to_have_text(SAID[0])  # it does not start by itself
    animated = "each => getComputedStyle(each.querySelector('[data-is=picture] svg')).animationName"
    assert stepper.evaluate(animated) == "none"
    stepper.get_by_role("button", name="play").click()
    expect(stepper.locator("[data-is=said]")).to_have_text(SAID[2])
    expect(stepper.get_by_role("button", name="play")).to_be_visible()
    expect(stepper.locator("[data-is=said]")).to_have_attribute("aria-live", "polite")
    page.emulate_media(reduced_motion="no-preference", media="print")
    assert stepper.evaluate(animated) == "ddp-appear"
    expect(stepper.locator("[data-is=live]")).to_be_hidden()
    strip = stepper.get_by_role("img")
    expect(strip).to_be_visible()
    assert strip.evaluate("image => image.naturalWidth") >= 400
