"""Lesson 04, Gradients, hooks and buckets. When does DDP send what?"""
