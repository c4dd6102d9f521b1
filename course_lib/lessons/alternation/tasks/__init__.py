"""Tasks of lesson 06: several forwards, several backwards, an evaluation in between, and the check that notices."""
