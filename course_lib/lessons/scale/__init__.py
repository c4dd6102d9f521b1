"""Lesson 15, Predict the scaling. Eight GPUs are 7.6 times as fast as one: what do 64 give me?"""
