"""Lesson 06, Forward/backward alternation. May I call the model twice before I call backward?"""
