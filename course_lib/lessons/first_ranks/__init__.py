"""Lesson 00, Your first ranks. How do four processes work together, and what happens when one does not?"""
