"""Lesson 02, Process groups and init. How do processes find each other, and what happens when one does not come?"""
