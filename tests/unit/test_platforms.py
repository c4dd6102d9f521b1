"""What `make platforms` writes into docs/platforms.md, without running anything."""

from tests import platforms

REPORT = """<testsuites><testsuite>
<testcase classname="notebooks.03_samplers.ipynb" name="Cell 0"/>
<testcase classname="notebooks.03_samplers.ipynb" name="Cell 1"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_the_page_has_what_the_report_says_in_the_place_of_the_last_run(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    cells, bad = platforms.counted(tmp_path / "report.xml")
    new = platforms.row("2.15.0 13.2\n", "", cells, bad, "abc1234", "1 May 2026")
    assert new == (
        "| 2.15.0 | CUDA 13.2, no GPU used | 1 May 2026, abc1234 | 1 of 2 cells agree; not: 03_samplers, cell 1 |"
    )
    page = platforms.PAGE.read_text()
    written = platforms.replaced(page, new)
    assert new in written.splitlines()
    assert len(written.splitlines()) == len(page.splitlines())
    added = platforms.replaced(page, new.replace("2.15.0", "9.9.9"))
    assert len(added.splitlines()) == len(page.splitlines()) + 1
