"""Small notebooks and answers, for tests of reading and grading what learners hand in."""

import json
from pathlib import Path

RIGHT = """
from torch.utils.data import DistributedSampler

def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    sampler = DistributedSampler(range(n), world_size, rank, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)
"""
WRONG = RIGHT.replace("    sampler.set_epoch(epoch)\n", "")
STUB = "# YOUR CODE HERE\n"
TASK = "samplers.shard_indices"


def cell(source: str, kind: str = "code", **more) -> dict:
    outputs = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source, **outputs, **more}


def task_cell(source: str, task: str = TASK, **more) -> dict:
    return cell(f"%%task {task}\n{source.strip()}\n", **more)


def notebook(*cells: dict, minor: int = 4) -> str:
    return json.dumps({"nbformat": 4, "nbformat_minor": minor, "metadata": {}, "cells": list(cells)})


def notebook_of_format_3(source: str) -> str:
    old = {
        "cell_type": "code",
        "language": "python",
        "input": source.splitlines(keepends=True),
        "outputs": [],
    }
    sheet = {"cells": [{**old, "collapsed": False, "prompt_number": 1, "metadata": {}}], "metadata": {}}
    return json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [sheet]})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
