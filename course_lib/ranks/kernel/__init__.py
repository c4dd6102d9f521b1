"""The kernel's side of a gang: start ranks, run jobs on them, stop what must stop, say what came back.

No torch is imported here.
"""
