"""Lesson 16: the launch of a job on several machines, what its ranks prepare there, and what its logs say."""
