"""Lesson 11, Out of memory on one rank. It caught the error and went on: what do the others get?"""
