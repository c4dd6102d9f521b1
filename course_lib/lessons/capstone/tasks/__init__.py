"""Lesson 18, the capstone: a whole training script, launched by torchrun's agent and judged by what it does there."""
