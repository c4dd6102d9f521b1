"""Measurements of the course's ranks beside other ways to start ranks that do the same work in the same run.

`python -m benchmarks` measures and prints (`make bench` installs the peers first). The rooms:

    workloads    what the ranks are asked to do: the same source text for everybody
    gangs        one class for each way to have ranks that can be told what to run next
    driven, starter, wire   how ranks of a script are told what to run next, so that they can be measured like a cell
    notebooks, jobs         the same contenders as cells of a real Jupyter kernel
    measures     what is measured, peers taking turns
    processes    memory (PSS), and the promise that no process is left over
    results      medians, ratios, goals: arithmetic on numbers, no processes
    report       those as text, Markdown and JSON
"""
