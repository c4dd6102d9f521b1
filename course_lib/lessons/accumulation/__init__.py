"""Lesson 10, Accumulation, clipping and mixed precision. Which gradient reaches the optimizer?"""
