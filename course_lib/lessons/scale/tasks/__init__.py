"""Tasks of lesson 15: two numbers, what they predict, the measurements of others, half the bytes."""
