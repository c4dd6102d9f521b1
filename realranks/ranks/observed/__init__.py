"""Ranks that another launcher has started: found and watched over a wire that they open themselves."""
