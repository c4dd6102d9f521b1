"""Tasks of lesson 08: parameters without a gradient, models that branch, experts that get no token."""
