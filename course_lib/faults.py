"""BREAK it on purpose, for `run(..., faults=[...])`: the engine's faults, by the name by which learners import them."""

from realranks.faults import Fault, FaultError, InjectedFault, delay, exit_with, fail, kill

__all__ = ["Fault", "FaultError", "InjectedFault", "delay", "exit_with", "fail", "kill"]
