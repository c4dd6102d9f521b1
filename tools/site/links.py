"""Links of a page: to other pages of the site as they are, to the rest of the repository by its address."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath
from urllib.parse import unquote

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


def relinked(text: str, page: PurePosixPath, pages: Collection[str], repository: str) -> str:
    """Rewrite the links of a page's Markdown so that they lead somewhere.

    Args:
        page: where the text stands below the course's folder.
        pages: what is in the site, as paths below the course's folder.
        repository: address of the course's sources; where it is empty, a link out of the site is only its words.
    """

    def linked(link: re.Match[str]) -> str:
        image, words, target = link.groups()
        path, mark, anchor = target.partition("#")
        if ":" in path:
            return link[0]
        if mark:
            anchor = re.sub(r"[^\w\- ]", "", unquote(anchor).lower())
        place = _resolve(page, path) if path else str(page)
        if place in pages and place.endswith(".html"):  # no page of Sphinx's
            return f'<a href="{target}">{words}</a>'
        if place in pages:
            return f"{image}[{words}]({path.replace('.ipynb', '.md')}{mark}{anchor})"
        return f"{image}[{words}]({repository}/blob/main/{place})" if repository else words

    return _LINK.sub(linked, text)


def _resolve(page: PurePosixPath, path: str) -> str:
    parts: list[str] = []
    for part in (*page.parent.parts, *PurePosixPath(path).parts):
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    return "/".join(parts)
