"""DRAW: pictures of ranks, buckets, messages and time. Pure data in, SVG out; imports nothing else of the course.

`drawing` holds the shapes and writes them as SVG, `looks` says what colour and pattern a thing has in every picture of
the course, `lanes`, `blocks` and `grid` arrange shapes: what each rank does when, what lies beside what in memory, who
has which piece. `replay` lets a picture of lanes be watched again, `stepper` shows pictures one after the other.
"""

from realranks.draw.blocks import Block, Group, blocks
from realranks.draw.drawing import Arrow, Box, Drawing, Text
from realranks.draw.grid import Cell, grid
from realranks.draw.lanes import Bar, Lane, LaneDrawing, lanes
from realranks.draw.replay import Moment, Replay, ReplayLane, without_overlaps
from realranks.draw.stepper import Frame, Stepper

__all__ = [
    "Arrow",
    "Bar",
    "Block",
    "Box",
    "Cell",
    "Drawing",
    "Frame",
    "Group",
    "Lane",
    "LaneDrawing",
    "Moment",
    "Replay",
    "ReplayLane",
    "Stepper",
    "Text",
    "blocks",
    "grid",
    "lanes",
    "without_overlaps",
]
