"""Lesson 01, DataParallel vs DDP. One line against a launcher: what does each do in a step?"""
