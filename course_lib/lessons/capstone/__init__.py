"""Lesson 18, Capstone: rescue the training script. Fifteen faults, one script: what does it really do?"""
