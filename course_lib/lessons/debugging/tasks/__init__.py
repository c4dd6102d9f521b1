"""Tasks of lesson 13: seven scripts that hang or go wrong; which rank, why, and a version that does not."""
