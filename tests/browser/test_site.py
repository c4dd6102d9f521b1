"""The web site: built once, then read as people read it."""

from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from tools.site import build_site
from tools.site.build import DOCS
from tools.site.front import CHOICES

ROOT = Path(__file__).parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
#: One that is computed, and one on real ranks: recording all of them takes minutes.
RECORDED = {"explore_stages", "explore_rings"}
REPOSITORY = "https://github.com/OWNER/REPOSITORY"

pytestmark = pytest.mark.filterwarnings("ignore::sphinx.deprecation.RemovedInSphinx11Warning")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    build_site(ROOT, out, REPOSITORY, recorded=RECORDED)
    return out


@cache
def parsed(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def test_every_lesson_and_document_is_there_and_no_page_is_heavy(site):
    documents = [name for names in DOCS.values() for name in names]
    pages = [*(f"notebooks/{stem}" for stem in LESSONS), *(f"docs/{name}" for name in documents)]
    for page in pages:
        assert (site / f"{page}.html").stat().st_size < 3e6
    words = (site / "searchindex.js").read_text(encoding="utf-8")
    assert all(f'"{page}"' in words for page in pages)


def test_no_link_leads_nowhere(site):
    dead = []
    for page in site.rglob("*.html"):
        for link in parsed(page).select("a[href], img[src], link[href], script[src]"):
            address = urlsplit(link.get("href") or link["src"])
            if address.scheme or address.netloc:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            if not target.is_file():
                dead.append((page.name, str(link)[:80]))
            elif address.fragment and target.suffix == ".html":
                found = parsed(target).find(id=unquote(address.fragment))
                dead += [] if found else [(page.name, str(link)[:80])]
    assert not dead


def test_pictures_have_an_alternative_and_controls_a_label(site):
    for stem in LESSONS:
        page = parsed(site / "notebooks" / f"{stem}.html")
        assert all(image.get("alt") for image in page.select(".output img")), stem
        assert len(page.select("h1")) == 1, stem


def test_axe_finds_no_serious_barrier(site, page):
    """axe-core's rules. What is left is minor, and furo's: empty headers of tables, a search page without a heading."""
    found = {}
    for name in ["index", "search", "docs/hung-run", *(f"notebooks/{stem}" for stem in LESSONS)]:
        page.goto((site / f"{name}.html").as_uri())
        told = Axe().run(page).response["violations"]
        found[name] = {each["id"] for each in told} - {"empty-table-header"}
    assert found.pop("search") <= {"page-has-heading-one"}
    assert not any(found.values()), found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_front_page_is_broken_on_a_phone_by_keyboard(site, page, shots, scheme):
    """Nothing but the page itself is loaded, and it is small."""
    loaded = set()
    page.on("request", lambda request: loaded.add(Path(unquote(urlsplit(request.url).path))))
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme=scheme)
    page.goto((site / "index.html").as_uri())
    page.get_by_role("radio", name="Nothing").focus()
    cell, verdict = (page.locator(".broken").nth(which) for which in (0, 1))
    expected = {
        "Nothing": ("", "tensor([4., 4.])"),
        "Rank 2 skips it": ("6if rank != 2:\n7    dist.all_reduce(x)\n", "rank 2, which has left the cell"),
        "Rank 1 brings another shape": (
            "6if rank == 1:\n7    x = torch.ones(3)\n",
            "rank 1 brings all_reduce()",
        ),
        "Rank 3 raises an error first": (
            '6if rank == 3:\n7    raise ValueError("no data")\n',
            "Rank 3 raised ValueError, and ranks 0-2 wait for it",
        ),
        "Rank 0 calls a barrier first": (
            "6if rank == 0:\n7    dist.barrier()\n",
            "Only rank 0 comes to barrier()",
        ),
    }
    assert [*expected] == [*CHOICES]
    for choice, (changed, said) in expected.items():
        expect(page.get_by_role("radio", name=choice)).to_be_focused()
        expect(page.get_by_role("radio", name=choice)).to_be_checked()
        assert "".join(cell.locator(".hll:visible").all_text_contents()) == changed
        expect(verdict.locator(":scope > :visible")).to_have_count(1)
        expect(verdict.locator(":scope > :visible")).to_contain_text(said)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert {each["id"] for each in Axe().run(page).response["violations"]} <= {"empty-table-header"}
        page.screenshot(path=shots / f"site_front_{scheme}_{choice.replace(' ', '_')}.png", full_page=True)
        page.keyboard.press("ArrowDown")
    assert all(path.is_relative_to(site) for path in loaded)
    assert sum(path.stat().st_size for path in loaded) < 300e3


def test_what_answers_a_question_is_seen_by_those_who_open_it(site, page, shots):
    page.goto((site / "notebooks" / "00_first_ranks.html").as_uri())
    expect(page.get_by_text("Rank 2 skips the all_reduce. What happens?")).to_be_visible()
    verdict = page.get_by_text("Ranks 0, 1 and 3 wait in all_reduce()").first
    expect(verdict).to_be_hidden()
    question = page.locator("section", has=page.get_by_role("heading", name="Break it 1")).last
    question.get_by_text("What the run says").first.click()
    expect(verdict).to_be_visible()
    page.screenshot(path=shots / "site_lesson.png")


@pytest.mark.parametrize("stem", LESSONS)
def test_no_run_that_was_predicted_is_in_sight(site, page, stem):
    page.goto((site / "notebooks" / f"{stem}.html").as_uri())
    told = page.get_by_text("The run says “")
    assert told.count() or stem == "18_capstone"
    assert not any(one.is_visible() for one in told.all())


def test_what_is_not_recorded_stays_a_still_and_says_so(site):
    page = parsed(site / "notebooks" / "13_debugging.html")
    (said,) = page.select(".output .recorded")
    assert said.get_text() == "Alive in the course: the number of the column; the targets of the three ranks."
    assert said.find_previous_sibling("img")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_computed_answers_are_chosen_by_keyboard_on_a_phone(site, page, shots, scheme):
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme=scheme)
    page.goto((site / "notebooks" / "17_sharding.html").as_uri())
    explorable = page.locator("[data-ddp-recorded]")
    shown, said = explorable.locator(".shown"), explorable.locator(".read-aloud")
    expect(shown.locator("img")).to_be_visible()
    ranks = page.get_by_role("slider", name="ranks")
    for key in ("Home", "ArrowRight"):
        ranks.press(key)
    expect(ranks).to_have_attribute("aria-valuetext", "2")
    expect(said).to_contain_text("7 billion parameters, Adam, float32, 2 ranks: fits with ZeRO 2, ZeRO 3.")
    page.get_by_role("checkbox", name="mixed precision, as in the ZeRO paper").press("Space")
    page.get_by_role("slider", name="billions").press("Home")
    fits = "0.1 billion parameters, Adam, mixed precision, 2 ranks: fits with DDP, ZeRO 1, ZeRO 2, ZeRO 3"
    expect(said).to_contain_text(fits)
    expect(shown.locator("svg")).to_contain_text(fits)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert {each["id"] for each in Axe().run(page).response["violations"]} <= {"empty-table-header"}
    explorable.screenshot(path=shots / f"site_computed_{scheme}.png")


def test_answers_of_real_ranks_are_chosen_and_stepped_through(site, page, shots):
    page.goto((site / "notebooks" / "01_dataparallel.html").as_uri())
    explorable = page.locator("[data-ddp-recorded]")
    page.get_by_role("radio", name="4", exact=True).press("ArrowRight")
    expect(page.get_by_role("radio", name="5", exact=True)).to_be_checked()
    same = "The ring has given the same sums as dist.all_reduce on every rank."
    expect(explorable.locator(".shown")).to_contain_text(same)
    expect(explorable.locator(".read-aloud")).to_contain_text(f"A ring all-reduce on 5 ranks. {same}")
    explorable.get_by_role("slider", name="step").press("End")
    expect(explorable.locator("[data-is=said]")).to_contain_text("All ranks have the sums of all chunks.")
    assert {each["id"] for each in Axe().run(page).response["violations"]} <= {"empty-table-header"}
    explorable.screenshot(path=shots / "site_real_ranks.png")


def test_without_scripts_the_still_is_left(site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "notebooks" / "17_sharding.html").as_uri())
    expect(page.locator(".shown img")).to_be_visible()
    expect(page.get_by_role("slider")).to_have_count(0)
    context.close()
