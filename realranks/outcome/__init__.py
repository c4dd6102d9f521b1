"""WHAT CAME BACK from running code on ranks: plain data, its text, and what was expected of it.

It imports nothing else of the course, and no torch: rooms above pass its objects on to each other.
"""
