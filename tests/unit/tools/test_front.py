"""What the front page of the site shows is what four real ranks say of its cell."""

from pathlib import Path

from tools.site.front import run_choices

SAID = {
    "Nothing": "ranks 0-3 | tensor([4., 4.])",
    "Rank 2 skips it": "✗ Not expected: Ranks 0, 1 and 3 wait in all_reduce() at line 7 of this cell for rank 2, "
    "which has left the cell without joining.",
    "Rank 1 brings another shape": "✗ Not expected: The ranks meet in the same collective with different sizes: "
    "rank 1 brings all_reduce() (3 float32), ranks 0, 2 and 3 bring all_reduce() (2 float32).",
    "Rank 3 raises an error first": "✗ Not expected: Rank 3 raised ValueError, and ranks 0-2 wait for it in "
    "all_reduce().",
    "Rank 0 calls a barrier first": "✗ Not expected: Only rank 0 comes to barrier() at line 7 of this cell, because "
    "the line stands under `rank == 0`; ranks 1-3 are in all_reduce() (2 float32) at line 8 of this cell.",
}


def test_each_way_to_break_the_cell_gets_its_verdict_from_real_ranks(tmp_path: Path):
    said = {choice: cell.outputs[0].data["text/plain"] for choice, cell in run_choices(tmp_path).items()}
    assert said.keys() == SAID.keys()
    assert {choice: text for choice, text in said.items() if SAID[choice] not in text} == {}
