"""What the course writes over, and what it leaves alone."""

import pytest

from realranks.own_files import NotOurFileError, check_ours, remember

MARK = "made by this test"


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "data"))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "table.csv"


def test_a_file_that_is_not_there_or_empty_may_be_written(file):
    check_ours(file)
    file.touch()
    check_ours(file)


@pytest.mark.parametrize("content", ["Student,ID\n", "{}", "\x00\xff" * 100])
def test_somebody_elses_file_stays(file, content):
    file.write_text(content, encoding="utf-8")
    with pytest.raises(NotOurFileError, match=r"table\.csv exists and was not written by this command"):
        check_ours(file, MARK)


def test_a_file_with_the_mark_is_ours(file):
    file.write_text(f"some lines\n{MARK}\n", encoding="utf-8")
    check_ours(file, MARK)


def test_a_file_is_ours_until_somebody_changes_it(file):
    file.write_text("a,b\n", encoding="utf-8")
    remember(file)
    check_ours(file)
    file.write_text("a,b\nmy own remark\n", encoding="utf-8")
    with pytest.raises(NotOurFileError):
        check_ours(file)


def test_the_same_file_by_another_name_is_the_same_file(file, tmp_path):
    file.write_text("a,b\n", encoding="utf-8")
    remember(file)
    link = tmp_path / "link.csv"
    link.symlink_to(file)
    check_ours(link)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(NotOurFileError, match="is a folder"):
        check_ours(tmp_path)


def test_nothing_to_remember_with_is_no_failure(file, tmp_path, monkeypatch):
    (tmp_path / "data").write_text("a file where the folder should be", encoding="utf-8")
    file.write_text("a,b\n", encoding="utf-8")
    remember(file)
    with pytest.raises(NotOurFileError):
        check_ours(file)


@pytest.mark.parametrize("damaged", ["{", "[]", "\x00"])
def test_a_damaged_memory_is_an_empty_one(file, tmp_path, damaged):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/written.json").write_text(damaged, encoding="utf-8")
    file.write_text("a,b\n", encoding="utf-8")
    remember(file)
    check_ours(file)
