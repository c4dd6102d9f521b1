"""What runs inside a rank: the learner's code on its main thread, and what can be said of it from a second one."""
