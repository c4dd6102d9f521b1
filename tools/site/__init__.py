"""The course as a web site: `make site`, from the saved notebooks and docs/. No cell of a lesson is run.

Rooms: `lessons` (a notebook as a Markdown page, answers folded), `links` (what leads out of the site), `explorables`
(controls that work without a kernel: each of their settings is drawn, or run, while the site is built), `front` (the
front page's cell, run on real ranks), `build` (all pages, given to Sphinx).
"""

from tools.site.build import SiteError, build_site

__all__ = ["SiteError", "build_site"]
