"""Does every slide of a page hold what is on it? Asked of a real browser, slide by slide.

As a script: ``python -m tests.browser.slides_that_fit slides/*.html [--pictures FOLDER]`` names each slide from which
something sticks out, or on which letters had to become too small, and with ``--pictures`` keeps a picture of each.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

#: Pixels of 720 below which letters cannot be read from the last row; pictures bring their own.
SMALLEST_LETTERS = 11.5

_LOOK = """
async () => {
  const found = [];
  const pause = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await document.fonts.ready;
  for (const slide of Reveal.getSlides()) {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v);
    if (slide.querySelector("img")) await pause();
    const whole = slide.getBoundingClientRect();
    const problems = new Set();
    let smallest = 100;
    const outside = (box, what, limit) => {
      const out = box.right > limit.right + 2 || box.bottom > limit.bottom + 2 || box.left < limit.left - 2;
      if (box.width && box.height && out) problems.add(what);
    };
    const room = slide.querySelector(".room"), limit = room.getBoundingClientRect();
    outside(slide.querySelector(".fit").getBoundingClientRect(), "content is higher than its room", limit);
    const words = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
      const node = words.currentNode, parent = node.parentElement;
      if (!node.data.trim() || parent.closest("aside, script, style, select")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      let zoom = 1;
      for (let each = parent; each; each = each.parentElement) zoom *= parseFloat(getComputedStyle(each).zoom) || 1;
      const style = getComputedStyle(parent), size = parseFloat(style.fontSize) * zoom;
      // The blank at which a line is wrapped hangs over the edge, and nobody sees it.
      const hanging = style.whiteSpace.startsWith("pre") ? size : 0;
      for (const box of range.getClientRects())
        outside({ ...box.toJSON(), right: box.right - hanging }, `text sticks out: ${node.data.trim().slice(0, 40)}`,
          room.contains(node) ? limit : whole);
      if (!parent.closest("svg")) smallest = Math.min(smallest, size);
    }
    const head = slide.querySelector("header");
    if (head && head.scrollHeight > head.clientHeight + 1) problems.add("the heading is too long");
    for (const picture of slide.querySelectorAll("img"))
      if (!picture.complete || !picture.naturalWidth) problems.add("a picture is missing");
    const fitted = parseFloat(slide.querySelector(".fit").dataset.fitted);
    found.push({ h, v, problems: [...problems], smallest, fitted });
  }
  return found;
}
"""


@dataclass(frozen=True)
class Looked:
    """What a browser shows of one slide: its place, what is wrong, its smallest letters, how much it was shrunk."""

    h: int
    v: int
    problems: list[str]
    smallest: float
    fitted: float

    @property
    def wrong(self) -> list[str]:
        small = self.smallest < SMALLEST_LETTERS
        return [*self.problems, *([f"letters of {self.smallest:.1f} pixels"] if small else [])]


def look_at(page: Page, path: Path) -> list[Looked]:
    """Go through all slides of a file."""
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(path.resolve().as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    return [Looked(**each) for each in page.evaluate(_LOOK)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    wrong = count = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for path in arguments.files:
            looked = look_at(page, path)
            count += len(looked)
            for slide in looked:
                if slide.wrong:
                    wrong += 1
                    print(f"{path.name}#/{slide.h}/{slide.v}: {'; '.join(slide.wrong)}")
                if arguments.pictures:
                    arguments.pictures.mkdir(parents=True, exist_ok=True)
                    page.evaluate(f"Reveal.slide({slide.h}, {slide.v})")
                    page.screenshot(path=arguments.pictures / f"{path.stem}_{slide.h:02}_{slide.v:02}.png")
            least = min(slide.fitted for slide in looked)
            print(f"{path.name}: {len(looked)} slides, made smaller at most to {least:.2f}")
        browser.close()
    outside = [url for url in asked if not url.startswith(("file:", "data:"))]
    print(f"{count} slides, {wrong} wrong, {len(outside)} requests to a network")
    return 1 if wrong or outside else 0


if __name__ == "__main__":
    sys.exit(main())
