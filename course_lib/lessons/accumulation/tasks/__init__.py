"""Tasks of lesson 10: loops to repair, accumulation for any remainder, the norm of a whole model."""
