"""Lesson 07, Wrapper modules. Which parameters does DDP look after, and which not?"""
