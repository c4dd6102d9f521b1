"""Lesson 12, Elastic training. A rank has died: who restarts what, and what is lost?"""
