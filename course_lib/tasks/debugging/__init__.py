"""Tasks of lesson 13: six scripts that hang or go wrong; which rank, why, and a version that does not."""
