"""Lesson 14, Logging, metrics, checkpoints. Which number is true, and what survives a kill?"""
