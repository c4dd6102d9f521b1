"""Tasks of lesson 07: a wrapper for any number of inputs, methods that are averaged, a student and its teacher."""
