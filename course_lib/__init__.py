"""A course on PyTorch DistributedDataParallel by experiment on real ranks.

`%load_ext course_lib` gives a notebook `%%ranks` and the other magics; `run` and `predict` are for plain cells. Importing
this package does not import torch: torch lives in the ranks.
"""
