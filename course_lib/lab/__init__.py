"""PLAY: what a lesson needs beside what it teaches - its pictures and its measuring. One small module per lesson.

What a learner is to read is in the lesson; what would only be in the way is here, under a name that says what it does.
In a notebook `name??` shows it.
"""
