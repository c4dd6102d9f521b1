"""Lesson 17, When DDP ends. Will it fit on more GPUs, and what can be cut?"""
