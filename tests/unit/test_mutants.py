"""The draw of `make mutants`, and its table. mutmut itself is not here: it has an environment of its own."""

from tests.mutants import draw, table

MUTANTS = {
    "a.py": [f"a{number}" for number in range(80)],
    "b.py": [f"b{number}" for number in range(19)],
    "c.py": ["c0"],
}


def test_each_file_gives_its_share_and_the_smallest_one_gives_one():
    drawn = draw(MUTANTS, 10, 1)
    assert len(set(drawn)) == len(drawn)
    assert [sum(name.startswith(file) for name in drawn) for file in "abc"] == [8, 2, 1]


def test_a_draw_is_the_same_for_the_same_seed_whatever_order_the_files_came_in():
    assert draw(MUTANTS, 10, 1) == draw(dict(reversed(MUTANTS.items())), 10, 1)
    assert draw(MUTANTS, 10, 1) != draw(MUTANTS, 10, 2)


def test_more_than_there_are_is_all_of_them():
    assert set(draw(MUTANTS, 1000, 1)) == {name for names in MUTANTS.values() for name in names}


def test_of_the_files_that_fit_as_many_are_drawn_as_of_all():
    assert all(name.startswith("b") for name in draw(MUTANTS, 10, 1, "b*"))
    assert len(draw(MUTANTS, 10, 1, "b*")) == 10
    assert draw(MUTANTS, 10, 1, "d*") == []


def test_a_mutant_without_end_counts_as_killed_and_one_that_no_test_reaches_for_nothing():
    found = [
        ("doctor/a.py", "killed"),
        ("doctor/a.py", "timeout"),
        ("doctor/b.py", "survived"),
        ("doctor/b.py", "no tests"),
        ("grading/a.py", "not checked"),
    ]
    assert table(found)[2:] == [
        "| doctor | 3 | 2 | 1 | 67% | 1 | 0 |",
        "| grading | 0 | 0 | 0 | - | 0 | 1 |",
        "| all | 3 | 2 | 1 | 67% | 1 | 1 |",
    ]
