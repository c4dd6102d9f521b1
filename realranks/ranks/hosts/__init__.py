"""Ranks on several machines, which ssh, Slurm, Kubernetes, docker or another command reaches.

On each machine a host process (`agent`) holds ranks as its children. The kernel (`host`, `link`, `spread`) speaks to it
over the standard input and output of the command that has started it: nothing listens for that. `trial` finds out by
which addresses the machines reach each other.
"""
