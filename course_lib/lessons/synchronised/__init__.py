"""Lesson 09, What is synchronised, and when. What does DDP keep equal, and what does it never look at?"""
