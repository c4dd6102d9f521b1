"""Lesson 14: what its pictures say, on data that ranks could have found; tests/integration has real ones."""

import pytest

from course_lib.lessons.checkpoints.lab import HaltingFile, draw_left, draw_left_out, next_job, on_the_disk


def test_a_file_halts_at_each_number_of_bytes_however_it_is_written(tmp_path):
    path, sizes = tmp_path / "a", []
    file = HaltingFile(str(path), [0, 3, 4, 10], lambda: sizes.append(path.stat().st_size))
    for piece in (b"ab", b"cdefgh", b"", b"ij"):
        file.write(piece)
    assert sizes == [0, 3, 4, 10]
    assert path.read_bytes() == b"abcdefghij"


@pytest.mark.parametrize(
    ("left", "end"),
    [
        ({"model.pt": (9, "20")}, "the next job resumes at step 20"),
        ({"model.pt": (0, "EOFError")}, "the next job gets an EOFError"),
        ({"model.pt.new": (9, "20")}, "the next job finds no checkpoint"),
    ],
)
def test_what_becomes_of_the_next_job(left, end):
    assert next_job(left) == end
    assert draw_left(left, "beside it, replace", 4, 9).title == f"Killed after 4 of 9 bytes: {end}"


def test_a_write_over_the_old_file_has_nothing_after_its_last_byte():
    left = {"model.pt": (9, "20")}
    assert draw_left(left, "write over it", 10, 9).title.startswith("Not killed")
    assert draw_left(left, "beside it, replace", 10, 9).title.startswith("Killed when all bytes are written")


def test_a_loss_that_does_not_differ_is_told_in_words():
    assert draw_left_out({"weights": 0.5, "nothing": 0.0}).alt == "weights: not 0; nothing: 0"


def test_a_power_failure_may_take_what_is_not_on_the_disk_yet():
    """In each frame: what the two names hold for processes, and on the disk."""
    assert len(on_the_disk().frames) == 6
    unsure = ["perhaps a part" in frame.drawing.svg() for frame in on_the_disk().frames]
    assert unsure == [False, True, True, False, False, False], "what goes wrong stands before the remedy"
