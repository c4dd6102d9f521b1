"""Tasks of lesson 14: a metric that may be read at any time, a checkpoint that survives a kill, a run that resumes."""
