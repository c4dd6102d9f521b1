"""Lesson 05, When ranks run at different speeds. Who waits for whom, and what does it cost?"""
