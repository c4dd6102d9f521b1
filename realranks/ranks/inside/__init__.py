"""The code inside a rank: the learner's on its main thread, and what a second thread can report about it."""
