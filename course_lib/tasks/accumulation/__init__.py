"""Tasks of lesson 10: a loop to repair, accumulation for any remainder, the norm of a whole model."""
