"""DRAW: pictures of ranks, buckets, messages and time. Pure data in, SVG out; imports nothing else of the course.

`drawing` holds the shapes and writes them as SVG, `looks` says what colour and pattern a thing has in every picture of
the course, `lanes`, `blocks` and `grid` arrange shapes: what each rank does when, what lies beside what in memory, who
has which piece. `replay` lets a picture of lanes be watched again, `stepper` shows pictures one after the other.
"""

from course_lib.draw.blocks import Block, Group, blocks
from course_lib.draw.drawing import Arrow, Box, Drawing, Text
from course_lib.draw.grid import Cell, grid
from course_lib.draw.lanes import Bar, Lane, LaneDrawing, lanes
from course_lib.draw.replay import Moment, Replay, Told, without_overlaps
from course_lib.draw.stepper import Frame, Stepper

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
    "Stepper",
    "Text",
    "Told",
    "blocks",
    "grid",
    "lanes",
    "without_overlaps",
]
