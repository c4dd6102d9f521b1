"""A package, so that no other one of this name is found instead: IPython 7.34 has one on the path."""
