"""Tasks of lesson 05: who waits and how long, an epoch with uneven batches, how often to synchronise."""
