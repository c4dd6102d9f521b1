"""Lesson 13, Debugging a hang. Seven ranks complain: which one is to blame?"""
