"""Which names in an output become links, and where they lead."""

import pytest

from course_lib.notebook.links import linked

LESSON = '<a href="../notebooks/03_samplers.ipynb">lesson 03</a>'
TASK = '<a href="../exercises/03_samplers.ipynb">samplers.make_loader</a>'


@pytest.fixture(autouse=True)
def among_notebooks(tmp_path, monkeypatch):
    for folder in ("notebooks", "exercises"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "03_samplers.ipynb").touch()
    monkeypatch.chdir(tmp_path / "exercises")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<b>Read again:</b> lesson 03, Shuffling", f"<b>Read again:</b> {LESSON}, Shuffling"),
        ("<div>Next task: samplers.make_loader</div>", f"<div>Next task: {TASK}</div>"),
        ("Next: samplers.make_loader, in exercises/03_samplers.", f"Next: {TASK}, in exercises/03_samplers."),
        ('<code style="">samplers.make_loader</code>', f'<code style="">{TASK}</code>'),
        ("<strong>samplers.make_loader: wrong</strong>", None),
        ("%hint samplers.make_loader", None),
        ("<code>torch.Tensor</code>", None),
        ('<b title="lesson 03">x</b>', None),
        ("lesson 04: there is no such file; nor lesson 99", None),
        ("lesson 031", None),
    ],
)
def test_names_become_links(html, expected):
    assert linked(html) == (expected or html)


def test_a_notebook_has_no_link_to_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "exercises" / "03_samplers.ipynb"))
    assert linked("Next task: samplers.make_loader") == "Next task: samplers.make_loader"
    assert linked("lesson 03") == LESSON


def test_where_no_lessons_are_beside_there_are_no_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert linked("lesson 03") == "lesson 03"
