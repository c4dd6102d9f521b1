"""Tasks of lesson 02: a start and an end that can be called at any time, groups of a grid, a start script repaired."""
