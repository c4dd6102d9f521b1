"""Tasks of lesson 11: a loop and a step that survive out of memory, the mean of the good ranks, one way for all."""
