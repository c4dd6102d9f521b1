"""A picture of lanes to be watched again: what its page holds; what happens in it is tried in a browser."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from realranks.draw import Bar, Lane, Moment, Replay, ReplayLane, lanes, without_overlaps
from realranks.outcome.outcome import Ending
from realranks.outcome.timeline import Timeline
from realranks.outcome.trace import TRACED, WAIT
from tests.support.outcomes import hung, outcome


def test_moments_that_lie_in_others_count_while_they_last():
    found = without_overlaps(
        [Moment(0, 10, "backward"), Moment(4, 6, "waiting"), Moment(12, 13, "optimizer")]
    )
    assert [(each.start, each.end, each.text) for each in found] == [
        (0, 4, "backward"),
        (4, 6, "waiting"),
        (6, 10, "backward"),
        (12, 13, "optimizer"),
    ]


def test_neighbours_of_one_kind_are_one_moment():
    assert without_overlaps([Moment(0, 1, "a"), Moment(1, 2, "a"), Moment(2, 2, "b")]) == (Moment(0, 2, "a"),)


def replay(name: str = "rank 0") -> Replay:
    drawing = lanes([Lane(name, ((Bar(0, 2, "forward"),),))], title="t", alt='"all" <b>', legend={})
    return Replay(drawing, (ReplayLane(name, (Moment(0, 2, "forward"),), ((1.5, 2),)),))


def test_a_page_holds_picture_buttons_and_what_each_lane_does():
    page = replay().html()
    (data,) = re.findall(r'\}\)\("ddp-replay-\w+", (\{.*\})\);</script>', page)
    (lane,) = json.loads(data)["lanes"]
    assert lane == {
        "name": "rank 0",
        "moments": [[0, 2, "forward"]],
        "collectives": [[1.5, 2]],
        "begins": 0,
        "ends": 2,
        "ended": "has ended",
    }
    # Without the script, and where a notebook is not trusted, the picture is left and no words of it beside it.
    outside = re.sub("<script>.*</script>", "", page, flags=re.DOTALL)
    assert "<svg" not in page
    assert re.sub("<[^>]*>", "", outside).strip() == ""
    assert 'alt="t: &quot;all&quot; &lt;b&gt;"' in outside
    assert [word.strip() for word in re.findall(r"<button[^>]*>([^<]*)</button>", page)] == [
        "start",
        "‹ step",
        "play",
        "step ›",
    ]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing is loaded from elsewhere


def test_names_cannot_end_the_script_or_become_markup():
    page = replay("</script><b>").html()
    assert page.count("</script>") == 1
    assert "<b>" not in page


def test_a_replay_that_moves_by_itself_needs_no_script(tmp_path):
    saved = replay().save(tmp_path / "replay.svg", seconds=3)
    root = ElementTree.parse(saved).getroot()
    moving = root.findall(".//{http://www.w3.org/2000/svg}animate")
    assert [(each.get("attributeName"), each.get("dur")) for each in moving] == [
        ("x", "3s"),
        ("width", "3s"),
        ("x", "3s"),
    ]
    assert "<script" not in saved.read_text()


def test_two_replays_on_a_page_do_not_share_a_name():
    assert replay("rank 0").html()[:40] != replay("rank 1").html()[:40]


def test_where_pictures_are_not_shown_words_are():
    assert repr(replay()) == '[replay: "all" <b>]'


def test_a_traced_run_knows_what_every_rank_did_and_when_it_joined():
    def event(name, start, end):
        return {"name": name, "start_ns": start * 1000, "duration_ns": (end - start) * 1000, "thread": 1}

    events = [event(TRACED, 0, 9000), event(WAIT, 2000, 5000), event("gloo:all_reduce", 1000, 5000)]
    (told,) = Timeline.from_traces({0: events}).replay().lanes
    assert told == ReplayLane(
        "rank 0", (Moment(2, 5, "waiting"),), ((1, 5),), begins=0, ends=9, ended="ended at 9.0 ms"
    )


def test_ranks_that_never_came_or_were_not_recorded_have_lanes_and_what_became_of_each_is_said():
    def event(name, end):
        return {"name": name, "start_ns": 0, "duration_ns": end * 10**6, "thread": 1}

    freed, left = [event(TRACED, 100), event(WAIT, 99), event("gloo:all_reduce", 99)], [event(TRACED, 2)]
    run = hung(0, trace_events={0: freed, 1: left}, world_size=3)
    run = replace(run, endings={**run.endings, 2: Ending.DIED}, exits={2: -9})
    found = run.replay("t")
    assert [one.ended for one in found.lanes] == [
        "freed at 100.0 ms",
        "left the cell at 2.0 ms",
        "died: killed by SIGKILL, nothing recorded",
    ]
    svg = found.drawing.svg()
    assert ">left the cell at 2.0 ms</text>" in svg
    assert ">died: killed by SIGKILL, nothing recorded</text>" in svg
    assert "bucket" not in svg
    assert found.drawing.alt == (
        "A lane for each of 3 ranks. rank 0 freed; rank 1 left the cell; rank 2 died: killed by SIGKILL"
    )


def test_a_run_that_was_not_traced_cannot_be_replayed():
    with pytest.raises(ValueError, match="not traced"):
        outcome().replay()
