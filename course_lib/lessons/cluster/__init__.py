"""Lesson 16, From laptop to cluster. It runs on my machine: what is different on two?"""
