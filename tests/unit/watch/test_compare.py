import json
import subprocess
import sys

import pytest

from realranks.watch import CompareError, compare, compare_fingerprints
from realranks.watch.fingerprint import merged, part_name
from tests.support.fingerprints import indices, module, part, tensor, value
from tests.support.outcomes import outcome

SAME = module(weight=tensor(1.0, 2.0), bias=tensor(0.5))


def test_equal_fingerprints_are_equal():
    found = compare_fingerprints(dict.fromkeys(range(4), SAME))
    assert found.equal
    assert found.differences == ()
    assert repr(found) == "equal on ranks 0-3\n  parameters | equal (2 tensors)"


def test_the_odd_rank_is_named_with_the_size_of_its_difference():
    odd = module(weight=tensor(1.0, 2.75), bias=tensor(0.5))
    found = compare_fingerprints({0: SAME, 1: SAME, 2: odd, 3: SAME})
    (difference,) = found.differences
    assert (difference.part, difference.name) == ("parameters", "weight")
    assert difference.majority == (0, 1, 3)
    assert difference.odd == (2,)
    assert difference.at_least == pytest.approx(0.75)
    assert repr(found) == (
        "≠ ranks 0-3 differ in parameters\n"
        "  parameters | ≠ not equal: 1 of 2 tensors\n"
        "             |   ≠ weight (2 float32): rank 2 differs from ranks 0, 1 and 3, by at least 0.75; "
        "norms differ by 24 %  <- first difference"
    )


def test_the_first_difference_is_the_first_in_the_models_order():
    odd = module(weight=tensor(9.0, 2.0), bias=tensor(9.0))
    found = compare_fingerprints({0: SAME, 1: odd})
    assert [difference.name for difference in found.differences] == ["weight", "bias"]
    assert [line.split()[2] for line in repr(found).splitlines() if "first difference" in line] == ["weight"]


def test_two_ranks_have_no_majority():
    found = compare_fingerprints({0: SAME, 1: module(weight=tensor(1.0, 2.0), bias=tensor(0.25))})
    (difference,) = found.differences
    assert difference.majority == ()
    assert difference.odd == (0, 1)
    assert "rank 1 differs from rank 0" in str(difference)


def test_ranks_that_all_differ():
    found = compare_fingerprints({rank: module(w=tensor(float(rank))) for rank in range(4)})
    assert "ranks 0-3 all differ, by at least 3" in repr(found)


def test_two_against_two():
    found = compare_fingerprints({rank: module(w=tensor(float(rank % 2))) for rank in range(4)})
    assert "ranks 1 and 3 differ from ranks 0 and 2" in repr(found)


def test_shapes_that_differ_are_told():
    other = module(weight=tensor(1.0, 2.0, 3.0), bias=tensor(0.5))
    (difference,) = compare_fingerprints({0: SAME, 1: SAME, 2: other}).differences
    assert difference.at_least is None
    assert str(difference) == (
        "weight: rank 2 differs from ranks 0 and 1: 2 float32 on ranks 0 and 1; 3 float32 on rank 2"
    )


def test_a_parameter_that_one_rank_lacks():
    found = compare_fingerprints({0: SAME, 1: SAME, 2: module(weight=tensor(1.0, 2.0))})
    (difference,) = found.differences
    assert str(difference) == (
        "bias: rank 2 differs from ranks 0 and 1: 1 float32 on ranks 0 and 1; missing on rank 2"
    )


def test_a_part_that_one_rank_lacks():
    found = compare_fingerprints({0: SAME, 1: {"parts": {}}})
    assert not found.equal
    assert "there on rank 0; missing on rank 1" in repr(found)


def test_no_gradient_is_not_the_same_as_a_gradient_of_zeros():
    zeros = part("gradients", {"w": tensor(0.0, 0.0)})
    none = part("gradients", {"w": {"kind": "none"}})
    found = compare_fingerprints({0: zeros, 1: none})
    assert not found.equal
    assert "no gradient on rank 1" in repr(found)
    assert compare_fingerprints({0: none, 1: none}).equal
    assert "no gradient yet" in repr(compare_fingerprints({0: none, 1: none}))


def test_a_tie_on_one_rank_alone_is_a_difference():
    tied = module(weight=tensor(1.0, 2.0), bias={"kind": "tied", "to": "weight"})
    assert "tied to weight on rank 1" in repr(compare_fingerprints({0: SAME, 1: tied}))


def test_a_difference_outside_the_samples_shows_in_the_statistics():
    here, there = tensor(1.0, 1.0, 1.0), tensor(1.0, 4.0, 1.0)
    here["samples"] = there["samples"] = [1.0, 1.0]
    (difference,) = compare_fingerprints({0: module(w=here), 1: module(w=there)}).differences
    assert difference.at_least == pytest.approx(3.0)  # the largest values differ by as much


def test_bytes_that_differ_without_a_figure_that_does():
    here, there = tensor(0.0), tensor(0.0)
    there["crc"] += 1  # -0.0
    (difference,) = compare_fingerprints({0: module(w=here), 1: module(w=there)}).differences
    assert difference.at_least == 0
    assert "less than samples can tell" in str(difference)


def test_nan_is_counted_and_does_not_poison_the_figures():
    found = compare_fingerprints({0: module(w=tensor(1.0, 2.0)), 1: module(w=tensor(float("nan"), 2.5))})
    (difference,) = found.differences
    assert difference.at_least == pytest.approx(0.5)
    assert "1 elements are NaN or infinite" in str(difference)


def test_options_are_shown_as_they_are():
    slow, fast = part("options", {"lr": value(0.1)}), part("options", {"lr": value(0.2)})
    text = repr(compare_fingerprints({0: slow, 1: slow, 2: fast}))
    assert "lr: rank 2 differs from ranks 0 and 1: 0.1 on ranks 0 and 1; 0.2 on rank 2" in text


def test_many_differences_are_counted_and_kept():
    def model(offset: float) -> dict:
        return module(**{f"w{number}": tensor(number + offset) for number in range(20)})

    found = compare_fingerprints({0: model(0), 1: model(1)})
    assert len(found.differences) == 20
    assert "and 12 more" in repr(found)


def test_several_things_keep_their_names():
    found = compare_fingerprints(
        {rank: merged({"ddp": SAME, "x": part("value", {"": value(1)})}) for rank in (0, 1)}
    )
    assert list(found.parts) == ["ddp parameters", "x"]


def test_samplers_are_told_apart_from_weights():
    def fingerprint(rank: int) -> dict:
        return part("sampler", {"indices": indices(rank, rank + 2, dataset=4)})

    found = compare_fingerprints({0: fingerprint(0), 1: fingerprint(1)})
    assert not found.equal  # they take different samples, as they should
    assert "disjoint: ranks take 2 indices each" in repr(found)
    assert "first difference" not in repr(found)


def test_html_says_what_the_text_says():
    found = compare_fingerprints({0: SAME, 1: module(weight=tensor(1.0, 2.0), bias=tensor(0.25))})
    html = found._repr_html_()
    assert "≠" in html  # a sign and words, not colour alone
    for words in ("rank 1 differs from rank 0", "ranks 0 and 1 differ in parameters", "first difference"):
        assert words in html
    assert "var(" not in html


def test_an_outcome_whose_ranks_are_gone_is_refused():
    with pytest.raises(LookupError, match="ended"):
        compare(outcome(), "model")


@pytest.mark.parametrize("arguments", [(), (1, 2), ({}, "x")])
def test_what_cannot_be_compared_is_refused_in_one_line(arguments):
    with pytest.raises(CompareError):
        compare(*arguments)


def test_names_are_needed_beside_an_outcome():
    with pytest.raises(CompareError, match="names of variables"):
        compare(outcome())


def test_fingerprints_for_tests_are_what_ranks_can_send():
    json.dumps(SAME, allow_nan=False)


def test_watching_needs_no_torch_in_the_kernel():
    source = "import sys, realranks.watch; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


@pytest.mark.parametrize(
    ("owner", "part", "name"),
    [
        ("model", "parameters", "model parameters"),
        ("step", "value", "step"),
        ("sampler", "sampler", "sampler"),
        ("train.sampler", "sampler", "train.sampler"),
        ("rng", "rng", "rng"),
        ("", "rng", "rng"),
    ],
)
def test_a_part_is_called_by_its_owner_and_its_sort_and_nothing_is_said_twice(owner, part, name):
    assert part_name(owner, part) == name
