"""The class board in a real browser: on a projector and on a telephone, with a thief, and over a restart."""

import pytest
from playwright.sync_api import expect

from course_lib.board.events import question_id
from course_lib.board.sender import Sender
from course_lib.questions import question_named
from course_lib.tasks import find_task
from tests.support.boards import running_board

pytestmark = pytest.mark.browser

PROJECTOR = {"width": 1920, "height": 1080}
TELEPHONE = {"width": 390, "height": 844}
TASK = "samplers.shard_indices"
#: The one with the longest words: they have to fit a projector, too.
MISCONCEPTION = max(find_task(TASK).misconceptions, key=lambda each: len(each.sentence) + len(each.taught))
EVIL = "<img src=x onerror=document.title=1>"
#: The first question of lesson 00.
FIRST = question_named("00.skips", {})
ASKED = FIRST.asks, tuple(option.says for option in FIRST.options)
QUESTION = question_id(*ASKED)


@pytest.fixture
def learner(tmp_path):
    """Joins learners, each with a data folder of their own."""
    mine = []

    def join(board, name):
        mine.append(Sender(tmp_path / f"learner{len(mine)}"))
        mine[-1].join(board.address, board.code, name)
        return mine[-1]

    yield join
    for each in mine:
        each.close()


def test_a_class_is_seen_live_and_a_restart_loses_nothing(browser, shots, tmp_path, learner):
    file = tmp_path / "class.sqlite"
    projector = browser.new_context(viewport=PROJECTOR).new_page()
    telephone = browser.new_context(viewport=TELEPHONE, color_scheme="dark", has_touch=True).new_page()
    with running_board(file) as board:
        ada, evil, grace = learner(board, "Ada"), learner(board, EVIL), learner(board, "Grace")

        thief = projector
        thief.goto(board.page.replace(board.key, "A" * len(board.key)))
        expect(thief.get_by_role("alert")).to_contain_text("not the instructor's key")
        expect(thief.locator("[role=tabpanel]:visible")).to_have_count(0)
        assert "Ada" not in thief.content()

        for page in (projector, telephone):
            page.goto(board.page)
            page.reload()  # the same address with another hash is the same page
            expect(page.locator("#present")).to_have_text("3 learners")
            assert board.key not in page.url, "it would stand in the address bar of the projector"

        ada.tell("verdict", TASK, "pass")
        row = projector.locator(f"[data-task='{TASK}']")
        expect(row.locator(".n.passed")).to_have_text("✓ 1")

        for _ in range(3):
            evil.tell("verdict", TASK, "wrong", (MISCONCEPTION.id,))
        grace.tell("verdict", TASK, "deadlock")
        expect(row.locator(".numbers")).to_have_text("✓ 1… 1! 1")
        expect(row.locator(".since")).to_contain_text("stuck since")
        expect(projector.locator("#misconceptions")).to_contain_text(MISCONCEPTION.sentence)

        for voter, answer in ((ada, "2"), (grace, "2"), (evil, "0")):
            voter.tell("vote", QUESTION, answer)
        expect(projector.locator(".voted")).to_have_text("3 of 3 have predicted")
        expect(projector.locator(".votes")).to_have_count(0)
        projector.screenshot(path=shots / "board_before.png")
        button = telephone.get_by_role("button", name="Reveal the votes").bounding_box()
        telephone.mouse.move(button["x"] + 9, button["y"] + 9)
        telephone.mouse.down()
        ada.tell("verdict", "samplers.make_loader", "pass")  # the page changes before the button is let go
        expect(projector.locator("[data-task='samplers.make_loader'] .n.passed")).to_have_text("✓ 1")
        telephone.mouse.up()
        expect(projector.locator(".votes")).to_have_text(["1", "0", "2"])

        telephone.get_by_role("tab", name="Learners").click()
        named = telephone.get_by_role("rowheader", name=EVIL)
        expect(named).to_be_visible()
        assert telephone.title() == "Class board", "a name is text"
        right = (
            "element.getBoundingClientRect().right <= element.closest('.card').getBoundingClientRect().right"
        )
        words = projector.locator(".sentence, .where, .answer, .title")
        assert words.evaluate_all(f"all => all.every((element) => {right})")
        for page in (projector, telephone):
            assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), "nothing is cut off"
        projector.screenshot(path=shots / "board_projector.png")
        telephone.screenshot(path=shots / "board_telephone.png")

        board.kill()
        ada.tell("verdict", "samplers.evaluate", "pass")
        expect(projector.locator("#link")).to_contain_text("does not answer")

    with running_board(file) as again:
        assert (again.address, again.code, again.page) == (board.address, board.code, board.page)
        expect(projector.locator("#link")).to_be_empty()
        expect(projector.locator("[data-task='samplers.evaluate'] .n.passed")).to_have_text("✓ 1")
        expect(row.locator(".numbers")).to_have_text("✓ 1… 1! 1")
        expect(projector.locator(".votes")).to_have_text(["1", "0", "2"])

        telephone.once("dialog", lambda dialog: dialog.accept())
        telephone.get_by_role("button", name="Remove <img").click()
        expect(projector.locator("#present")).to_have_text("2 learners")
    for page in (projector, telephone):
        page.context.close()
