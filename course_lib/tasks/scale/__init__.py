"""Tasks of lesson 15: two numbers for a network, what they predict, and half the bytes."""
