"""Tasks of lesson 12: how often to save, and a training that may be killed at any time."""
