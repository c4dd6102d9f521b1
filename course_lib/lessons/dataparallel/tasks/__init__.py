"""Tasks of lesson 01: a step of DataParallel by hand, what it moves, and a script turned into one for DDP."""
