"""Lesson 00: a script that somebody has half converted, judged by launches under torchrun's agent."""
