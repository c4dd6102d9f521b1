"""Tasks of lesson 15: two numbers for a network, what they predict, half the bytes, and what a rank holds."""
