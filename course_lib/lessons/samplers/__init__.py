"""Lesson 03, Samplers. Who gets which sample?"""
