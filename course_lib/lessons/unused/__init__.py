"""Lesson 08, Unused parameters and changing graphs. What happens when a parameter gets no gradient?"""
