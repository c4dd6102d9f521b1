"""Slides as one HTML file that needs nothing beside it: no network, no second file.

reveal.js (`reveal/`) is put into the page, licences included; pictures are data. The page brings its own speaker view
(press S), and prints one slide per page with `?print-pdf`.
"""

import base64
import re
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from tools.slides.deck import Block, Deck, Look

#: How a file says that it was written here, and may be written again.
GENERATOR = "ddp-course slides"
_HERE = Path(__file__).parent
_LOCAL_LINK = re.compile(r'<a [^>]*href="(?!https?://)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)
#: Code, which stays as it is (`$` means something else in a shell); a formula on lines of its own; one in a line.
_MATH = re.compile(
    r"(```.*?```|`[^`\n]+`|^ {4}[^\n]*$)|\$\$(.+?)\$\$|(?<![\w`$])\$([^\s$`][^$`\n]*?)\$(?![\w`$])",
    re.DOTALL | re.MULTILINE,
)


def deck_page(deck: Deck) -> str:
    """Return the HTML of a deck."""
    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True)
    environment.filters["inline"] = _inline
    environment.filters["markdown"] = _markdown
    environment.filters["block"] = _block
    return environment.get_template("slides.html").render(
        deck=deck, generator=GENERATOR, opening=deck.chapters[0][0], look=Look, shipped=_read_shipped
    )


@cache
def _read_shipped(name: str) -> Markup:
    """Return a style, script or licence of the page that cannot close the element it is in."""
    return Markup((_HERE / name).read_text(encoding="utf-8").replace("</script", "<\\/script"))


def _markdown(text: str) -> Markup:
    """Render Markdown as HTML. Links to files of the course become words: the slides lie somewhere else."""
    html = markdown2html_mistune(
        _MATH.sub(lambda found: found[1] or _formula(found[2] or found[3], found[2] is not None), text)
    )
    return Markup(_LOCAL_LINK.sub(r"\1", html))


def _inline(text: str) -> Markup:
    """Render Markdown of one line, without the paragraph around it."""
    return Markup(re.sub(r"^<p>(.*)</p>\s*$", r"\1", str(_markdown(text)), flags=re.DOTALL))


def _words(text: str) -> str:
    """Render a question or an answer: plain text, in which only code is marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _formula(latex: str, displayed: bool) -> str:
    """Render a formula as a picture: MathJax would come from the network."""
    from matplotlib.mathtext import math_to_image

    picture = BytesIO()
    joined = " ".join(latex.split())
    depth = math_to_image(f"${joined}$", picture, dpi=72, format="svg")
    # matplotlib draws with letters of 10 points.
    height = re.search(r'height="([\d.]+)pt"', picture.getvalue().decode())
    tall = f"height: {float(height[1]) / 10:.2f}em; vertical-align: -{depth / 10:.2f}em" if height else ""
    image = f'<img class="formula" style="{tall}" alt="{escape(joined)}" src="{_data(picture.getvalue(), "svg+xml")}">'
    return f"\n\n<p>{image}</p>\n\n" if displayed else image


def _block(block: Block) -> Markup:
    """Return the HTML of a block."""
    if block.look is Look.TEXT:
        return Markup(f'<div class="words">{_markdown(block.content)}</div>')
    if block.look is Look.CODE:
        html = Highlight2HTML(pygments_lexer="ipython3")(block.content)  # type: ignore[no-untyped-call]
        return Markup(f'<div class="code">{html}</div>')
    if block.look is Look.PRINTED:
        return Markup(f'<pre class="printed">{escape(block.content)}</pre>')
    if block.look is Look.PANEL:
        return Markup(f'<div class="panel">{block.content}</div>')
    if block.look is Look.QUESTION:
        answers = "".join(f"<li>{_words(answer)}</li>" for answer in block.answers)
        return Markup(f'<p class="asks">{_words(block.content)}</p><ol class="answers">{answers}</ol>')
    source = f"data:image/{'svg+xml' if block.look is Look.SVG else 'png'};base64,{block.content}"
    return Markup(f'<img class="figure" alt="{escape(block.alt)}" src="{source}">')


def _data(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
