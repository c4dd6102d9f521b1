"""Tasks of lesson 11: the mean of the good ranks, a step that survives out of memory, the cheapest way out."""
