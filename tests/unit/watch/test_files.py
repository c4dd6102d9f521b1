"""The files that are noted, with the line of the script that opens them."""

import contextlib
import io
import os

import pytest
import torch

from realranks.outcome.probe_notes import Counts, ProbeNotes
from realranks.watch.files import Files
from realranks.watch.patches import replace


@pytest.fixture
def noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notes = ProbeNotes(Counts())
    files = Files(notes)
    with contextlib.ExitStack() as stack:
        files.wrap(stack, replace, files)
        yield notes.files


def names(found):
    assert all(where.startswith("test_files.py, line ") for where in found.values())
    return [os.path.relpath(path) for path in found]


def test_files_are_noted_by_what_is_done_with_them(noted, tmp_path):
    torch.save(1, "saved.pt")
    torch.save(1, f=tmp_path / "by_name.pt")
    with open("list.txt", "w", encoding="utf-8") as file:
        file.write("a")
    (tmp_path / "list.txt").read_text()
    torch.load("saved.pt")
    with open(mode="ab", file="log"):
        pass
    torch.save(1, io.BytesIO())
    assert names(noted.saved) == ["saved.pt", "by_name.pt"]
    assert names(noted.written) == ["list.txt", "log"]
    assert names(noted.read) == ["list.txt", "saved.pt"]


def test_of_many_files_the_newest_that_were_read_are_known(noted, tmp_path):
    for number in range(30):
        (tmp_path / f"{number}").write_text("")
    for number in [*range(30), 15]:
        (tmp_path / f"{number}").read_text()
    assert names(noted.written) == [f"{number}" for number in range(20)]
    assert names(noted.read) == [f"{number}" for number in (10, 11, 12, 13, 14, *range(16, 30), 15)]


def test_open_raises_what_it_raises(noted, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        (tmp_path / "nothing").read_text()
