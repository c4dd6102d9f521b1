"""Processes that start processes: forkserver, zygote and store. They run no thread and no learner's code."""
