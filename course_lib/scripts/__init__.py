"""What lessons use of the engine to run scripts, by the name by which they import it."""
